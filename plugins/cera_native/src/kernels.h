// The arithmetic of a forward pass as a table of functions, one table for each instruction set.
//
// Every function computes an output element in an order that depends on that element alone: not on how many rows there
// are, how work was divided, or which table is used. docs/explanation/native-backend.md says why that holds.
#ifndef CERA_NATIVE_KERNELS_H_
#define CERA_NATIVE_KERNELS_H_

#include <stddef.h>
#include <stdint.h>

#include "formats/formats.h"

namespace cera {

constexpr int kGroupColumns = 8;   // columns of an activation whose blocks lie side by side
constexpr int kChunkKeys = 256;    // keys of a chunk of the cache; attention is computed chunk by chunk
constexpr int kMaxQueryRows = 32;  // most queries one call of `attend` takes

// What goes with 32 values quantised to 8 bits: value = scale * code.
struct BlockSums {
  float scale;
  float scaled_sum;  // scale * sum of the codes
  int32_t negated_sum;
  int32_t negated_half_sums[2];
};

// Columns of activations in blocks of 32, quantised. Block-major within groups of eight columns, so that a tile of
// weights meets the same block of all columns at neighbouring addresses.
struct QuantisedColumns {
  int8_t* codes;
  BlockSums* sums;
  int num_columns;
  int num_blocks;

  int ColumnsInGroup(int group) const {
    const int left = num_columns - group * kGroupColumns;
    return left < kGroupColumns ? left : kGroupColumns;
  }
  size_t BlockIndex(int group, int block, int column_in_group) const {
    return static_cast<size_t>(group) * kGroupColumns * num_blocks + block * ColumnsInGroup(group) + column_in_group;
  }
};

// y[column][row] = bias[row] + sum over k of weight[row][k] * x[column][k], for the rows of some tiles.
struct MultiplyArgs {
  const uint8_t* tiles;  // of the whole matrix
  size_t tile_bytes;
  int num_rows;
  int num_inner;
  int first_tile;
  int num_tiles;
  QuantisedColumns quantised;  // input of code formats
  const float* values;         // input of float formats: values[column * values_stride + k]
  size_t values_stride;
  int num_columns;
  const float* bias;  // whole vector, or null
  float* y;           // row 0 is the first row of `first_tile`
  size_t y_stride;
  bool add;  // add to what y holds instead of replacing it
};

// What queries have gathered: weighted sums of values, and the sums of the weights, which are e^(score - maximum). A
// sum of 0 means nothing, and then the rest is undefined.
struct Gathered {
  float* outputs;  // [num_queries][padded_head_dim]
  float* maxima;   // [num_queries]
  float* sums;     // [num_queries]
};

// One chunk of keys and values of one key/value head, met by all queries that need it.
struct AttendArgs {
  const void* keys;    // [kChunkKeys / 16][head_dim][16]
  const void* values;  // [kChunkKeys][padded_head_dim]
  int head_dim;
  int padded_head_dim;
  const float* queries;    // [num_queries][head_dim], already scaled
  const int* num_visible;  // for each query how many keys of this chunk it sees, never falling, at least 0
  int num_queries;
  float* scores;                       // scratch, [kMaxQueryRows][kChunkKeys]
  Gathered result;                     // of this chunk alone
  const int* first_visible = nullptr;  // for each query the first key it sees, where that is not the first there is
};

using MultiplyFunction = void (*)(const MultiplyArgs& args);

struct Kernels {
  const char* name;
  MultiplyFunction multiply[kNumGgufTypes];  // null where there is no such format

  // Quantises the values of blocks [first_block, last_block) of one column; x points to the first of them.
  void (*quantise)(const float* x, int column, int first_block, int last_block, const QuantisedColumns& y);
  // 1 / sqrt(mean of squares + eps).
  float (*rms_scale)(const float* x, int n, float eps);
  // y = x * scale * weight for the elements [first, last).
  void (*scale_by)(const float* x, float scale, const float* weight, int first, int last, float* y);
  // y = silu(gate) * up.
  void (*silu_multiply)(const float* gate, const float* up, int n, float* y);
  // y = gelu(gate) * up, with the approximation of GELU by a hyperbolic tangent.
  void (*gelu_multiply)(const float* gate, const float* up, int n, float* y);
  // Turns the pairs of one head; see Rotary in cera_core.modelfile.rotary for the two layouts.
  void (*rotate)(float* head, const float* cosines, const float* sines, int num_pairs, bool interleaved);
  // Puts one key into its chunk of the cache, and one value.
  void (*store_key)(const float* key, int head_dim, int index, bool half, void* keys);
  void (*store_value)(const float* value, int head_dim, int padded_head_dim, int index, bool half, void* values);
  void (*attend)(const AttendArgs& args, bool half);
  // Adds what was gathered from the next chunk to what was gathered from those before it.
  void (*join)(const Gathered& chunk, int num_queries, int padded_head_dim, const Gathered& total);
  // y = x / divisor.
  void (*divide)(const float* x, float divisor, int n, float* y);
};

extern const Kernels kPlainKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
#endif

}  // namespace cera

#endif  // CERA_NATIVE_KERNELS_H_
