#include "model.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "error.h"
#include "forward.h"

namespace cera {
namespace {

std::atomic<uint64_t> num_models{0};

// Far above any real model, and small enough that offsets within a row, a head or a chunk of keys fit into an int.
constexpr int kMostSize = 1 << 24;
constexpr int kMostHeadDim = 1 << 16;
constexpr double kMostFrequency = 1e3;  // radians per position; real ones are at most 1 over a factor of scaling

// The places for tensors in a layer, by role.
struct MatrixRole {
  const char* name;
  PackedMatrix Layer::* place;
};
struct VectorRole {
  const char* name;
  std::vector<float> Layer::* place;
};

constexpr MatrixRole kMatrixRoles[] = {
    {"attn_q.weight", &Layer::query},       {"attn_k.weight", &Layer::key},    {"attn_v.weight", &Layer::value},
    {"attn_output.weight", &Layer::output}, {"ffn_gate.weight", &Layer::gate}, {"ffn_up.weight", &Layer::up},
    {"ffn_down.weight", &Layer::down},
};
constexpr VectorRole kVectorRoles[] = {
    {"attn_norm.weight", &Layer::attention_norm}, {"ffn_norm.weight", &Layer::feed_forward_norm},
    {"attn_q_norm.weight", &Layer::query_norm},   {"attn_k_norm.weight", &Layer::key_norm},
    {"attn_q.bias", &Layer::query_bias},          {"attn_k.bias", &Layer::key_bias},
    {"attn_v.bias", &Layer::value_bias},          {"attn_output.bias", &Layer::output_bias},
};

void Require(bool condition, const std::string& requirement) {
  if (!condition) throw Error("ModelFileError", "The native backend cannot load the model: " + requirement + ".");
}

void CheckMatrix(const PackedMatrix& matrix, int num_rows, int num_columns, const std::string& name) {
  Require(!matrix.empty(), "the tensor '" + name + "' is required, but missing");
  Require(matrix.num_rows() == num_rows && matrix.num_columns() == num_columns,
          "the tensor '" + name + "' must have the shape " + std::to_string(num_rows) + " x " +
              std::to_string(num_columns) + ", found " + std::to_string(matrix.num_rows()) + " x " +
              std::to_string(matrix.num_columns()));
}

void CheckVector(const std::vector<float>& vector, int size, bool required, const std::string& name) {
  if (vector.empty() && !required) return;
  Require(vector.size() == static_cast<size_t>(size), "the tensor '" + name + "' must have " + std::to_string(size) +
                                                          " elements, found " + std::to_string(vector.size()));
}

void CheckIds(const int32_t* ids, int num_ids, int vocab_size) {
  if (num_ids < 1) throw Error("InvalidInputError", "A forward needs at least one token, found none.");
  for (int i = 0; i < num_ids; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      throw Error("InvalidInputError", "Token ids must lie between 0 and " + std::to_string(vocab_size - 1) +
                                           ", found " + std::to_string(ids[i]) + ".");
    }
  }
}

bool IsSize(int n) { return n > 0 && n <= kMostSize; }

}  // namespace

Model::Model(const ModelShape& shape, const Kernels& kernels, int num_threads, bool half_cache)
    : id_(++num_models),
      shape_(shape),
      kernels_(kernels),
      cache_shape_{{}, shape.head_dim, half_cache},
      pool_(num_threads) {
  Require(IsSize(shape.hidden_size) && IsSize(shape.vocab_size), "its sizes must be positive");
  Require(IsSize(shape.head_dim) && shape.head_dim <= kMostHeadDim && shape.head_dim % 2 == 0,
          "the size of a head must be even, positive and at most " + std::to_string(kMostHeadDim) + ", found " +
              std::to_string(shape.head_dim));
  Require(shape.rms_eps > 0 && shape.rms_eps < 1, "the epsilon of its norms must lie between 0 and 1");
}

Model::~Model() = default;

void Model::RequireFinished(bool finished) const {
  const bool is_finished = workspace_ != nullptr;
  if (is_finished != finished) {
    throw Error("ModelError", finished ? "A native model must be finished before it is used."
                                       : "A native model that is finished takes no more layers and tensors.");
  }
}

void Model::AddLayer(int num_heads, int num_kv_heads, int feed_forward_size, Rotary rotary) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireFinished(false);
  Require(IsSize(num_heads) && IsSize(num_kv_heads) && num_heads % num_kv_heads == 0,
          "the number of key/value heads must divide the number of heads");
  Require(static_cast<int64_t>(num_heads) * shape_.head_dim <= kMostSize && IsSize(feed_forward_size),
          "a layer's sizes must be positive and below " + std::to_string(kMostSize));
  Require(rotary.num_pairs() * 2 <= shape_.head_dim, "no more elements of a head can turn than it has");
  for (double frequency : rotary.frequencies) {
    Require(frequency >= -kMostFrequency && frequency <= kMostFrequency,
            "its heads must turn by at most " + std::to_string(kMostFrequency) + " radians per position, found " +
                std::to_string(frequency));
  }
  Layer layer;
  layer.num_heads = num_heads;
  layer.num_kv_heads = num_kv_heads;
  layer.feed_forward_size = feed_forward_size;
  layer.rotary = std::move(rotary);
  layers_.push_back(std::move(layer));
  cache_shape_.num_kv_heads.push_back(num_kv_heads);
}

void Model::SetTensor(int layer, const std::string& role, const RawTensor& tensor) {
  pool_.CheckProcess();
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireFinished(false);
  if (layer < 0) {
    if (role == "token_embd.weight")
      embedding_ = PackedMatrix(tensor, arena_, pool_);
    else if (role == "output.weight")
      head_ = PackedMatrix(tensor, arena_, pool_);
    else if (role == "output_norm.weight")
      output_norm_ = ReadVector(tensor);
    else
      throw Error("UnsupportedModelError", "The native backend has no place for the tensor '" + tensor.name + "'.");
    return;
  }
  Require(layer < static_cast<int>(layers_.size()), "the tensor '" + tensor.name + "' belongs to no layer");
  for (const MatrixRole& place : kMatrixRoles) {
    if (role == place.name) {
      layers_[layer].*place.place = PackedMatrix(tensor, arena_, pool_);
      return;
    }
  }
  for (const VectorRole& place : kVectorRoles) {
    if (role == place.name) {
      layers_[layer].*place.place = ReadVector(tensor);
      return;
    }
  }
  throw Error("UnsupportedModelError", "The native backend has no place for the tensor '" + tensor.name + "'.");
}

void Model::CheckLayer(const Layer& layer, int index) const {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int hidden = shape_.hidden_size, queries = layer.num_heads * shape_.head_dim;
  const int keys = layer.num_kv_heads * shape_.head_dim, feed_forward = layer.feed_forward_size;
  CheckMatrix(layer.query, queries, hidden, prefix + "attn_q.weight");
  CheckMatrix(layer.key, keys, hidden, prefix + "attn_k.weight");
  CheckMatrix(layer.value, keys, hidden, prefix + "attn_v.weight");
  CheckMatrix(layer.output, hidden, queries, prefix + "attn_output.weight");
  CheckMatrix(layer.gate, feed_forward, hidden, prefix + "ffn_gate.weight");
  CheckMatrix(layer.up, feed_forward, hidden, prefix + "ffn_up.weight");
  CheckMatrix(layer.down, hidden, feed_forward, prefix + "ffn_down.weight");
  CheckVector(layer.attention_norm, hidden, true, prefix + "attn_norm.weight");
  CheckVector(layer.feed_forward_norm, hidden, true, prefix + "ffn_norm.weight");
  CheckVector(layer.query_norm, shape_.head_dim, false, prefix + "attn_q_norm.weight");
  CheckVector(layer.key_norm, shape_.head_dim, false, prefix + "attn_k_norm.weight");
  CheckVector(layer.query_bias, queries, false, prefix + "attn_q.bias");
  CheckVector(layer.key_bias, keys, false, prefix + "attn_k.bias");
  CheckVector(layer.value_bias, keys, false, prefix + "attn_v.bias");
  CheckVector(layer.output_bias, hidden, false, prefix + "attn_output.bias");
}

void Model::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireFinished(false);
  Require(!layers_.empty(), "it must have at least one layer");
  for (size_t i = 0; i < layers_.size(); ++i) CheckLayer(layers_[i], static_cast<int>(i));
  CheckMatrix(embedding_, shape_.vocab_size, shape_.hidden_size, "token_embd.weight");
  CheckMatrix(head(), shape_.vocab_size, shape_.hidden_size, "output.weight");
  CheckVector(output_norm_, shape_.hidden_size, true, "output_norm.weight");
  workspace_ = std::make_unique<Workspace>(*this);
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
  return std::make_unique<State>(id_, cache_shape_, max_length);
}

std::unique_ptr<State> Model::CopyState(State& state) const {
  CheckOwner(state);
  const std::lock_guard<std::mutex> state_lock(state.mutex);
  auto copy = NewState(state.max_length);
  copy->cache.CopyFrom(state.cache, state.length);
  copy->length = state.length;
  return copy;
}

void Model::Truncate(State& state, int length) const {
  CheckOwner(state);
  const std::lock_guard<std::mutex> state_lock(state.mutex);
  if (length < 0 || length > state.length) {
    throw Error("RewindError", "A state can be truncated to 0 to " + std::to_string(state.length) +
                                   " tokens, its own length; asked for " + std::to_string(length) + ".");
  }
  state.length = length;
  // One chunk more than needed stays, so that a draft accepted or not at a border does not ask for memory each time.
  state.cache.Shrink(length + kChunkKeys);
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
}

}  // namespace cera
