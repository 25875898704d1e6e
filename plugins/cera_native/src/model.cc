// A model that is finished: its states, and forwards over them.
#include "model.h"

#include <algorithm>

#include "error.h"
#include "forward.h"

namespace cera {
namespace {

void CheckIds(const int32_t* ids, int num_ids, int vocab_size) {
  if (num_ids < 1) throw Error("InvalidInputError", "A forward needs at least one token, found none.");
  for (int i = 0; i < num_ids; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      throw Error("InvalidInputError", "Token ids must lie between 0 and " + std::to_string(vocab_size - 1) +
                                           ", found " + std::to_string(ids[i]) + ".");
    }
  }
}

}  // namespace

Model::~Model() = default;

float Model::query_scale() const {
  if (shape_.attention_scale > 0) return shape_.attention_scale;
  return 1.0f / __builtin_sqrtf(static_cast<float>(shape_.head_dim));
}

void Model::RequireFinished(bool finished) const {
  const bool is_finished = workspace_ != nullptr;
  if (is_finished != finished) {
    throw Error("ModelError", finished ? "A native model must be finished before it is used."
                                       : "A native model that is finished takes no more layers and tensors.");
  }
}

void Model::CheckOwner(const State& state) const {
  pool_.CheckProcess();  // before a lock is taken
  if (state.model_id != id_) {
    throw Error("InvalidInputError", "A state must be used with the model that made it, found one of another model.");
  }
}

std::unique_ptr<State> Model::NewState(int max_length) const {
  RequireFinished(true);
  if (max_length < 1) {
    throw Error("InvalidInputError",
                "A state must be for at least one token, found " + std::to_string(max_length) + ".");
  }
  auto state = std::make_unique<State>(id_, cache_shape_, max_length);
  if (!has_convolution_) return state;
  for (const Layer& layer : layers_) {
    const int num_before = layer.is_convolution() ? layer.num_taps(shape_.hidden_size) - 1 : 0;
    const int headroom = layer.is_convolution() ? shape_.rewind_headroom : 0;
    state->rings.emplace_back(num_before, headroom, shape_.hidden_size);
  }
  return state;
}

std::unique_ptr<State> Model::CopyState(State& state) const {
  CheckOwner(state);
  const std::lock_guard<std::mutex> state_lock(state.mutex);
  auto copy = NewState(state.max_length);
  copy->cache.CopyFrom(state.cache, state.length);
  copy->rings = state.rings;
  copy->length = state.length;
  copy->oldest = state.oldest;
  return copy;
}

void Model::Truncate(State& state, int length) const {
  CheckOwner(state);
  const std::lock_guard<std::mutex> state_lock(state.mutex);
  if (length < state.oldest || length > state.length) {
    throw Error("RewindError", "A state of " + std::to_string(state.length) + " tokens can be cut to " +
                                   std::to_string(state.oldest) + ".." + std::to_string(state.length) + ", found " +
                                   std::to_string(length) + ".");
  }
  state.length = length;
  // One chunk more than needed stays, so that a draft accepted or not at a border does not ask for memory each time.
  state.cache.Shrink(length + kChunkKeys);
}

void Model::CheckState(const State& state) const {
  for (const ConvolutionRing& ring : state.rings) {
    if (!ring.HoldsStateAt(state.length)) {
      throw Error("ModelError",
                  "The state has lost a convolution's past, so what follows cannot be computed. Make a new state and "
                  "feed it.");
    }
  }
}

void Model::Forward(State& state, const int32_t* ids, int num_ids, bool all_rows, float* logits) {
  CheckOwner(state);
  CheckIds(ids, num_ids, shape_.vocab_size);
  const std::lock_guard<std::mutex> state_lock(state.mutex);
  const int length = state.length;
  if (num_ids > state.max_length - length) {
    throw Error("ContextFullError", "The context holds " + std::to_string(state.max_length) + " tokens, " +
                                        std::to_string(length) + " are there, and " + std::to_string(num_ids) +
                                        " more do not fit. Shorten the text or make a state for more tokens.");
  }
  CheckState(state);
  state.cache.Reserve(length + num_ids);
  const std::lock_guard<std::mutex> lock(mutex_);
  workspace_->PrepareFor(std::min(num_ids, kMaxRows), length + num_ids);
  pool_.Run([&](int thread) {
    for (int first = 0; first < num_ids; first += kMaxRows) {
      const int num_rows = std::min(kMaxRows, num_ids - first);
      const bool is_last = first + num_rows == num_ids;
      const LogitsWanted wanted = all_rows ? LogitsWanted::kAll : is_last ? LogitsWanted::kLast : LogitsWanted::kNone;
      float* rows = all_rows ? logits + static_cast<size_t>(first) * shape_.vocab_size : logits;
      ForwardPass(*this, state, *workspace_, pool_, thread).Run(ids + first, num_rows, length + first, wanted, rows);
    }
  });
  state.length = length + num_ids;
  const int oldest = std::max(state.oldest, state.length - shape_.rewind_headroom);
  state.cache.Forget(oldest);
  state.oldest = has_convolution_ ? oldest : std::max(state.oldest, state.cache.oldest());
}

}  // namespace cera
