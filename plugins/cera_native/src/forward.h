// One forward pass over some rows, as seen by one thread of the team.
#ifndef CERA_NATIVE_FORWARD_H_
#define CERA_NATIVE_FORWARD_H_

#include <stdint.h>

#include <vector>

#include "model.h"

namespace cera {

constexpr int kMaxRows = 64;  // rows that go through the layers together; a longer prompt goes in several times

enum class LogitsWanted { kNone, kLast, kAll };

// Columns as floats and, for weights that are codes, quantised; `width` values each.
struct Columns {
  float* values;
  int8_t* codes;
  BlockSums* sums;
  int width;

  float* column(int i) const { return values + static_cast<size_t>(i) * width; }
  QuantisedColumns Quantised(int num_columns) const { return {codes, sums, num_columns, width / kBlock}; }
};

// The memory of columns of at most some width.
struct ColumnBuffer {
  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<BlockSums> sums;

  void Resize(int num_columns, int most_width);
  Columns View(int width) { return {values.data(), codes.data(), sums.data(), width}; }
};

// What each thread needs for itself.
struct ThreadScratch {
  std::vector<float> gate, up;  // [kMaxRows][kBlock]
  std::vector<float> scores, partial, output;
  float maxima[kMaxQueryRows], sums[kMaxQueryRows];
};

// The buffers of a forward pass; one set a model, since one pass runs at a time.
struct Workspace {
  explicit Workspace(const Model& model);

  // Makes room for `num_rows` rows. Throws std::bad_alloc.
  void PrepareFor(int num_rows);

  const Model& model;
  int num_rows = 0;
  std::vector<float> residual;  // [rows][hidden]
  ColumnBuffer normed, attended, gated;
  std::vector<float> projected;       // [rows][queries, keys, values of the widest layer]
  std::vector<float> queries;         // [key/value head][row][head in group][head_dim]
  std::vector<float> cosines, sines;  // [rows][head_dim / 2]
  std::vector<ThreadScratch> scratch;
};

class ForwardPass {
 public:
  ForwardPass(const Model& model, State& state, Workspace& workspace, Team& team, int thread);

  // Runs the rows `ids`, the first of them at `position`. Every thread of the team calls it with the same arguments.
  void Run(const int32_t* ids, int num_rows, int position, LogitsWanted wanted, float* logits);

 private:
  // A product whose input is one of the workspace's activations.
  struct Product {
    const PackedMatrix* matrix;
    const float* bias;  // or null
    float* y;
    size_t y_stride;
    bool add;
  };

  Range Share(int total) const { return ShareOf(total, thread_, team_.num_threads()); }
  static int64_t TileCost(const Product& product) { return static_cast<int64_t>(product.matrix->tile_bytes()); }

  void Embed(const int32_t* ids);
  void TurnAngles(const Rotary& rotary);
  void RunLayer(int index);
  void Normalise(const float* weight);
  void Multiply(const Product* products, int num_products, const Columns& x);
  void MultiplyTiles(const Product& product, const Columns& x, Range tiles, float* y);
  void RotateAndStore(const Layer& layer, int index);
  void RotateHead(const Layer& layer, const std::vector<float>& norm, int row, float* head);
  void Attend(const Layer& layer, int index);
  void AttendQueries(const Layer& layer, int index, int kv_head, Range queries);
  void WriteAttended(const Layer& layer, int kv_head, Range queries);
  void QuantiseAttended();
  void GateAndUp(const Layer& layer);
  void ComputeLogits(LogitsWanted wanted, float* logits);

  const Model& model_;
  const Kernels& kernels_;
  State& state_;
  Workspace& ws_;
  Team& team_;
  const int thread_;
  const int hidden_, head_dim_;
  Columns normed_ = {}, attended_ = {}, gated_ = {};
  int num_rows_ = 0;
  int position_ = 0;
};

}  // namespace cera

#endif  // CERA_NATIVE_FORWARD_H_
