// How a model comes in: layers, tensors and the checks of both. Nothing of it is touched once it is finished.
#include "model.h"

#include <atomic>
#include <utility>

#include "error.h"
#include "forward.h"

namespace cera {
namespace {

std::atomic<uint64_t> num_models{0};

// Far above any real model, and small enough that offsets within a row, a head or a chunk of keys fit into an int.
constexpr int kMostSize = 1 << 24;
constexpr int kMostHeadroom = 1 << 16;
constexpr int kMostTaps = 64;
constexpr int kMostExperts = 1 << 12;
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
    {"attn_q.weight", &Layer::query},
    {"attn_k.weight", &Layer::key},
    {"attn_v.weight", &Layer::value},
    {"attn_output.weight", &Layer::output},
    {"ffn_gate.weight", &Layer::gate},
    {"ffn_up.weight", &Layer::up},
    {"ffn_down.weight", &Layer::down},
    {"shortconv.in_proj.weight", &Layer::convolution_in},
    {"shortconv.out_proj.weight", &Layer::convolution_out},
    {"ffn_gate_inp.weight", &Layer::router},
};
constexpr VectorRole kVectorRoles[] = {
    {"attn_norm.weight", &Layer::attention_norm},
    {"ffn_norm.weight", &Layer::feed_forward_norm},
    {"attn_q_norm.weight", &Layer::query_norm},
    {"attn_k_norm.weight", &Layer::key_norm},
    {"attn_q.bias", &Layer::query_bias},
    {"attn_k.bias", &Layer::key_bias},
    {"attn_v.bias", &Layer::value_bias},
    {"attn_output.bias", &Layer::output_bias},
    {"post_attention_norm.weight", &Layer::post_attention_norm},
    {"post_ffw_norm.weight", &Layer::post_feed_forward_norm},
    {"shortconv.conv.weight", &Layer::taps},
    {"exp_probs_b.bias", &Layer::selection_bias},
};

struct ExpertsRole {
  const char* name;
  std::vector<PackedMatrix> Layer::* place;
};
constexpr ExpertsRole kExpertsRoles[] = {
    {"ffn_gate_exps.weight", &Layer::expert_gate},
    {"ffn_up_exps.weight", &Layer::expert_up},
    {"ffn_down_exps.weight", &Layer::expert_down},
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

bool IsSize(int n) { return n > 0 && n <= kMostSize; }

}  // namespace

Model::Model(const ModelShape& shape, const Kernels& kernels, int num_threads, bool half_cache)
    : id_(++num_models),
      shape_(shape),
      kernels_(kernels),
      cache_shape_{{}, {}, shape.head_dim, half_cache},
      pool_(num_threads) {
  Require(IsSize(shape.hidden_size) && IsSize(shape.vocab_size), "its sizes must be positive");
  Require(IsSize(shape.head_dim) && shape.head_dim <= kMostHeadDim && shape.head_dim % 2 == 0,
          "the size of a head must be even, positive and at most " + std::to_string(kMostHeadDim) + ", found " +
              std::to_string(shape.head_dim));
  Require(shape.rms_eps > 0 && shape.rms_eps < 1, "the epsilon of its norms must lie between 0 and 1");
  for (float factor : {shape.embedding_scale, shape.residual_scale, shape.logit_divisor}) {
    Require(factor > 0 && factor - factor == 0, "its factors must be positive and finite");
  }
  Require(shape.attention_scale >= 0 && shape.attention_scale - shape.attention_scale == 0,
          "its factor of attention must be finite and not negative");
  Require(shape.rewind_headroom > 0 && shape.rewind_headroom <= kMostHeadroom,
          "the headroom for rewinds must lie between 1 and " + std::to_string(kMostHeadroom));
}

void Model::AddLayer(int num_heads, int num_kv_heads, int feed_forward_size, Rotary rotary, int window) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireFinished(false);
  Require(IsSize(num_heads) && (num_kv_heads == 0 || (IsSize(num_kv_heads) && num_heads % num_kv_heads == 0)),
          "the number of key/value heads must divide the number of heads");
  Require(num_kv_heads > 0 || rotary.num_pairs() == 0, "a layer without key/value heads has nothing that turns");
  Require(window >= 0, "a window must not be negative");
  Require(rotary.magnitude > 0 && rotary.magnitude - rotary.magnitude == 0, "its heads must keep a finite size");
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
  layer.window = window;
  layer.rotary = std::move(rotary);
  layers_.push_back(std::move(layer));
  cache_shape_.num_kv_heads.push_back(num_kv_heads);
  cache_shape_.windows.push_back(num_kv_heads > 0 ? window : 0);
  has_convolution_ = has_convolution_ || num_kv_heads == 0;
}

void Model::AddExperts(int num_experts, int num_used, bool sigmoid_gating) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RequireFinished(false);
  Require(!layers_.empty(), "experts must belong to a layer");
  Require(num_experts > 0 && num_experts <= kMostExperts && num_used > 0 && num_used <= num_experts,
          "a token must go through some of at most " + std::to_string(kMostExperts) + " experts");
  Layer& layer = layers_.back();
  layer.num_experts = num_experts;
  layer.num_used = num_used;
  layer.sigmoid_gating = sigmoid_gating;
}

// Packs the matrix of each expert by itself; returns whether there is a place for the tensor.
bool Model::SetExperts(Layer& layer, const std::string& role, const RawTensor& tensor) {
  for (const ExpertsRole& place : kExpertsRoles) {
    if (role != place.name) continue;
    Require(layer.num_experts > 0 && tensor.num_rows % layer.num_experts == 0 &&
                tensor.num_bytes % static_cast<size_t>(layer.num_experts) == 0,
            "the tensor '" + tensor.name + "' must have equally many rows for each expert");
    const size_t num_bytes = tensor.num_bytes / static_cast<size_t>(layer.num_experts);
    std::vector<PackedMatrix> matrices;
    for (int expert = 0; expert < layer.num_experts; ++expert) {
      const RawTensor part = {tensor.name,
                              tensor.type,
                              tensor.num_rows / layer.num_experts,
                              tensor.num_columns,
                              tensor.bytes + static_cast<size_t>(expert) * num_bytes,
                              num_bytes};
      matrices.emplace_back(part, arena_, pool_);
    }
    layer.*place.place = std::move(matrices);
    return true;
  }
  return false;
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
  if (SetExperts(layers_[layer], role, tensor)) return;
  throw Error("UnsupportedModelError", "The native backend has no place for the tensor '" + tensor.name + "'.");
}

void Model::CheckAttention(const Layer& layer, const std::string& prefix) const {
  const int hidden = shape_.hidden_size, queries = layer.num_heads * shape_.head_dim;
  const int keys = layer.num_kv_heads * shape_.head_dim;
  CheckMatrix(layer.query, queries, hidden, prefix + "attn_q.weight");
  CheckMatrix(layer.key, keys, hidden, prefix + "attn_k.weight");
  CheckMatrix(layer.value, keys, hidden, prefix + "attn_v.weight");
  CheckMatrix(layer.output, hidden, queries, prefix + "attn_output.weight");
  CheckVector(layer.query_norm, shape_.head_dim, false, prefix + "attn_q_norm.weight");
  CheckVector(layer.key_norm, shape_.head_dim, false, prefix + "attn_k_norm.weight");
  CheckVector(layer.query_bias, queries, false, prefix + "attn_q.bias");
  CheckVector(layer.key_bias, keys, false, prefix + "attn_k.bias");
  CheckVector(layer.value_bias, keys, false, prefix + "attn_v.bias");
  CheckVector(layer.output_bias, hidden, false, prefix + "attn_output.bias");
}

void Model::CheckConvolution(const Layer& layer, const std::string& prefix) const {
  const int hidden = shape_.hidden_size, num_taps = layer.num_taps(hidden);
  CheckMatrix(layer.convolution_in, 3 * hidden, hidden, prefix + "shortconv.in_proj.weight");
  CheckMatrix(layer.convolution_out, hidden, hidden, prefix + "shortconv.out_proj.weight");
  Require(num_taps >= 2 && num_taps <= kMostTaps, "a short convolution must have 2 to " + std::to_string(kMostTaps) +
                                                      " taps, found " + std::to_string(num_taps));
  CheckVector(layer.taps, hidden * num_taps, true, prefix + "shortconv.conv.weight");
}

void Model::CheckFeedForward(const Layer& layer, const std::string& prefix) const {
  const int hidden = shape_.hidden_size, feed_forward = layer.feed_forward_size;
  if (layer.num_experts == 0) {
    CheckMatrix(layer.gate, feed_forward, hidden, prefix + "ffn_gate.weight");
    CheckMatrix(layer.up, feed_forward, hidden, prefix + "ffn_up.weight");
    CheckMatrix(layer.down, hidden, feed_forward, prefix + "ffn_down.weight");
    return;
  }
  CheckMatrix(layer.router, layer.num_experts, hidden, prefix + "ffn_gate_inp.weight");
  CheckVector(layer.selection_bias, layer.num_experts, false, prefix + "exp_probs_b.bias");
  for (const ExpertsRole& role : kExpertsRoles) {
    const bool is_down = role.place == &Layer::expert_down;
    Require(!(layer.*role.place).empty(), "the tensor '" + prefix + role.name + "' is required, but missing");
    for (const PackedMatrix& matrix : layer.*role.place) {
      CheckMatrix(matrix, is_down ? hidden : feed_forward, is_down ? feed_forward : hidden, prefix + role.name);
    }
  }
}

void Model::CheckLayer(const Layer& layer, int index) const {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int hidden = shape_.hidden_size;
  if (layer.is_convolution())
    CheckConvolution(layer, prefix);
  else
    CheckAttention(layer, prefix);
  CheckFeedForward(layer, prefix);
  CheckVector(layer.attention_norm, hidden, true, prefix + "attn_norm.weight");
  CheckVector(layer.feed_forward_norm, hidden, true, prefix + "ffn_norm.weight");
  CheckVector(layer.post_attention_norm, hidden, false, prefix + "post_attention_norm.weight");
  CheckVector(layer.post_feed_forward_norm, hidden, false, prefix + "post_ffw_norm.weight");
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

}  // namespace cera
