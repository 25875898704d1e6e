// A model's weights, packed and known to fit together, and one forward pass at a time over them.
#ifndef CERA_NATIVE_MODEL_H_
#define CERA_NATIVE_MODEL_H_

#include <stdint.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arena.h"
#include "convolution_ring.h"
#include "kernels.h"
#include "kv_cache.h"
#include "packed_matrix.h"
#include "rotary.h"
#include "thread_pool.h"

namespace cera {

struct Layer {
  int num_heads = 0;
  int num_kv_heads = 0;
  int feed_forward_size = 0;
  int window = 0;  // how many keys a query sees, 0 for all
  Rotary rotary;

  std::vector<float> attention_norm, feed_forward_norm;
  std::vector<float> query_norm, key_norm;                           // empty where the architecture has none
  std::vector<float> query_bias, key_bias, value_bias, output_bias;  // likewise
  std::vector<float> post_attention_norm, post_feed_forward_norm;    // likewise
  PackedMatrix query, key, value, output;
  std::vector<float> taps;  // [hidden][taps], the newest last; empty where there is attention
  PackedMatrix convolution_in, convolution_out;
  PackedMatrix gate, up, down;
  int num_experts = 0, num_used = 0;  // 0 where the feed-forward is dense
  bool sigmoid_gating = false;        // in place of softmax
  PackedMatrix router;
  std::vector<float> selection_bias;  // may be empty
  std::vector<PackedMatrix> expert_gate, expert_up, expert_down;

  int group_size() const { return num_heads / num_kv_heads; }
  // The first position a query sees.
  int FirstSeen(int position) const { return window == 0 || position < window ? 0 : position - window + 1; }
  bool is_convolution() const { return num_kv_heads == 0; }
  int num_taps(int hidden_size) const { return static_cast<int>(taps.size()) / hidden_size; }
};

struct ModelShape {
  int hidden_size = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float rms_eps = 0;
  float embedding_scale = 1, residual_scale = 1, logit_divisor = 1;
  float attention_scale = 0;  // 0 is one over the root of a head's size
  bool gelu = false;          // in place of SiLU
  int rewind_headroom = 64;   // for states that do not hold all of the text
};

// What a session adds to a model. Belongs to the model that made it.
struct State {
  State(uint64_t model_id, const CacheShape& shape, int max_length)
      : model_id(model_id), max_length(max_length), cache(shape) {}

  const uint64_t model_id;
  const int max_length;
  int length = 0;
  int oldest = 0;  // the smallest length it can be cut to
  KvCache cache;
  std::vector<ConvolutionRing> rings;  // one a layer, empty ones where there is attention
  std::mutex mutex;                    // taken before the model's
};

struct Workspace;

class Model {
 public:
  Model(const ModelShape& shape, const Kernels& kernels, int num_threads, bool half_cache);
  ~Model();

  // Building: layers with their sizes, then tensors by role ("attn_q.weight"; layer -1 for those outside the layers),
  // then `Finish`, which checks that everything is there and fits. All throw Error or std::bad_alloc.
  // A layer without key/value heads is a short convolution.
  void AddLayer(int num_heads, int num_kv_heads, int feed_forward_size, Rotary rotary, int window = 0);
  // Makes the feed-forward of the layer added last one of experts.
  void AddExperts(int num_experts, int num_used, bool sigmoid_gating);
  void SetTensor(int layer, const std::string& role, const RawTensor& tensor);
  void Finish();

  std::unique_ptr<State> NewState(int max_length) const;
  std::unique_ptr<State> CopyState(State& state) const;
  void Truncate(State& state, int length) const;

  // Appends ids to the state; writes the logits of the last one or, with all_rows, of each. One call at a time runs,
  // others wait. Throws Error or std::bad_alloc and leaves the state's length as it was.
  void Forward(State& state, const int32_t* ids, int num_ids, bool all_rows, float* logits);

  const ModelShape& shape() const { return shape_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Kernels& kernels() const { return kernels_; }
  const CacheShape& cache_shape() const { return cache_shape_; }
  const PackedMatrix& embedding() const { return embedding_; }
  const PackedMatrix& head() const { return head_.empty() ? embedding_ : head_; }
  const std::vector<float>& output_norm() const { return output_norm_; }
  int num_threads() const { return pool_.num_threads(); }
  float query_scale() const;

 private:
  bool SetExperts(Layer& layer, const std::string& role, const RawTensor& tensor);
  void RequireFinished(bool finished) const;
  void CheckOwner(const State& state) const;
  void CheckLayer(const Layer& layer, int index) const;
  void CheckAttention(const Layer& layer, const std::string& prefix) const;
  void CheckFeedForward(const Layer& layer, const std::string& prefix) const;
  void CheckConvolution(const Layer& layer, const std::string& prefix) const;
  void CheckState(const State& state) const;

  const uint64_t id_;
  const ModelShape shape_;
  const Kernels& kernels_;
  CacheShape cache_shape_;
  ThreadPool pool_;
  Arena arena_;
  std::vector<Layer> layers_;
  PackedMatrix embedding_, head_;
  std::vector<float> output_norm_;
  bool has_convolution_ = false;
  std::unique_ptr<Workspace> workspace_;
  std::mutex mutex_;
};

}  // namespace cera

#endif  // CERA_NATIVE_MODEL_H_
