// Whole models with seeded random weights, made in memory: what tests and the fuzz target run.
#ifndef CERA_NATIVE_TINY_MODEL_H_
#define CERA_NATIVE_TINY_MODEL_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "test_support.h"

namespace cera {
namespace {

struct TinyShape {
  int hidden, head_dim, num_heads, num_kv_heads, feed_forward, vocab, num_layers;
  bool has_head_norms, has_biases, is_tied, interleaved;
  int window = 0;       // of every attention layer, 0 for none
  int num_taps = 0;     // if there are any, every other layer is a short convolution, the first among them
  int num_experts = 0;  // if there are any, in every layer; each token goes through two

  bool has_convolution(int layer) const { return num_taps > 0 && layer % 2 == 0; }
};

// A tensor that a model of some shape needs.
struct TensorSpec {
  int layer;  // -1 outside the layers
  std::string role;
  int num_rows, num_columns;
  bool is_vector;
};

[[maybe_unused]] std::vector<TensorSpec> TensorsOf(const TinyShape& s) {
  const int queries = s.num_heads * s.head_dim, keys = s.num_kv_heads * s.head_dim;
  std::vector<TensorSpec> tensors = {{-1, "token_embd.weight", s.vocab, s.hidden, false},
                                     {-1, "output_norm.weight", 1, s.hidden, true}};
  if (!s.is_tied) tensors.push_back({-1, "output.weight", s.vocab, s.hidden, false});
  for (int i = 0; i < s.num_layers; ++i) {
    const auto add = [&](std::initializer_list<TensorSpec> more) { tensors.insert(tensors.end(), more); };
    add({{i, "attn_norm.weight", 1, s.hidden, true}, {i, "ffn_norm.weight", 1, s.hidden, true}});
    if (s.num_experts > 0) {
      add({{i, "ffn_gate_inp.weight", s.num_experts, s.hidden, true},
           {i, "exp_probs_b.bias", 1, s.num_experts, true},
           {i, "ffn_up_exps.weight", s.num_experts * s.feed_forward, s.hidden, false},
           {i, "ffn_gate_exps.weight", s.num_experts * s.feed_forward, s.hidden, false},
           {i, "ffn_down_exps.weight", s.num_experts * s.hidden, s.feed_forward, false}});
    } else {
      add({{i, "ffn_up.weight", s.feed_forward, s.hidden, false},
           {i, "ffn_gate.weight", s.feed_forward, s.hidden, false},
           {i, "ffn_down.weight", s.hidden, s.feed_forward, false}});
    }
    if (s.has_convolution(i)) {
      add({{i, "shortconv.in_proj.weight", 3 * s.hidden, s.hidden, false},
           {i, "shortconv.conv.weight", 1, s.hidden * s.num_taps, true},
           {i, "shortconv.out_proj.weight", s.hidden, s.hidden, false}});
      continue;
    }
    add({{i, "attn_q.weight", queries, s.hidden, false},
         {i, "attn_k.weight", keys, s.hidden, false},
         {i, "attn_v.weight", keys, s.hidden, false},
         {i, "attn_output.weight", s.hidden, queries, false}});
    if (s.has_head_norms) {
      tensors.push_back({i, "attn_q_norm.weight", 1, s.head_dim, true});
      tensors.push_back({i, "attn_k_norm.weight", 1, s.head_dim, true});
    }
    if (s.has_biases) {
      tensors.push_back({i, "attn_q.bias", 1, queries, true});
      tensors.push_back({i, "attn_k.bias", 1, keys, true});
      tensors.push_back({i, "attn_v.bias", 1, keys, true});
    }
  }
  return tensors;
}

[[maybe_unused]] Rotary RotaryOf(const TinyShape& shape) {
  std::vector<double> frequencies;
  double frequency = 1.0;
  for (int i = 0; i < shape.head_dim / 2; ++i, frequency *= 0.7) frequencies.push_back(frequency);
  return {std::move(frequencies), shape.interleaved};
}

// `change(tensor, &bytes)` may change the bytes of a tensor before they are loaded.
template <class Change>
std::unique_ptr<Model> MakeTinyModel(const TinyShape& shape, const FileFormat& format, const Kernels& kernels,
                                     int num_threads, bool half_cache, Change change) {
  const ModelShape sizes = {shape.hidden, shape.head_dim, shape.vocab, 1e-5f};
  auto model = std::make_unique<Model>(sizes, kernels, num_threads, half_cache);
  for (int i = 0; i < shape.num_layers; ++i) {
    const bool convolves = shape.has_convolution(i);
    model->AddLayer(shape.num_heads, convolves ? 0 : shape.num_kv_heads, shape.feed_forward,
                    convolves ? Rotary() : RotaryOf(shape), shape.window);
    if (shape.num_experts > 0) model->AddExperts(shape.num_experts, 2, true);
  }
  uint64_t seed = 0;
  for (const TensorSpec& tensor : TensorsOf(shape)) {
    const FileFormat& type = tensor.is_vector ? FileFormats()[0] : format;
    std::vector<uint8_t> bytes = RandomWeights(type, tensor.num_rows, tensor.num_columns, ++seed);
    change(tensor, &bytes);
    model->SetTensor(tensor.layer, tensor.role,
                     {tensor.role, type.type, tensor.num_rows, tensor.num_columns, bytes.data(), bytes.size()});
  }
  model->Finish();
  return model;
}

[[maybe_unused]] std::unique_ptr<Model> MakeTinyModel(const TinyShape& shape, const FileFormat& format,
                                                      const Kernels& kernels, int num_threads, bool half_cache) {
  return MakeTinyModel(shape, format, kernels, num_threads, half_cache,
                       [](const TensorSpec&, std::vector<uint8_t>*) {});
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_TINY_MODEL_H_
