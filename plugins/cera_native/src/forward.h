// One forward pass over some rows, as seen by one thread of the team.
#ifndef CERA_NATIVE_FORWARD_H_
#define CERA_NATIVE_FORWARD_H_

#include <stdint.h>

#include <algorithm>
#include <vector>

#include "model.h"

namespace cera {

constexpr int kMaxRows = 64;  // rows that go through the layers together; a longer prompt goes in several times

constexpr float kSmallestTotal = 6.103515625e-5f;  // of the weights of a row's experts, as in llama.cpp

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
  Columns View(int width) { return ViewFrom(width, 0); }
  // The columns from `first` on; they are laid out on their own.
  Columns ViewFrom(int width, int first) {
    const size_t offset = static_cast<size_t>(first) * width;
    return {values.data() + offset, codes.data() + offset, sums.data() + offset / kBlock, width};
  }
};

// Which experts the rows of a layer go through. A slot is one row at one expert; those of an expert are a run.
struct ExpertChoice {
  std::vector<float> weights;    // [rows][experts]
  std::vector<int> chosen;       // [rows][used], in the order of their numbers
  std::vector<float> shares;     // [rows][used]
  std::vector<int> slots;        // [rows][used]
  std::vector<int> rows;         // of each slot
  std::vector<int> first_slots;  // of each expert, and the end
  std::vector<int> active;       // experts that some row goes through

  void Resize(int num_rows, int num_experts, int num_used);
};

// The memory of what a run of queries gathers.
class GatherBuffer {
 public:
  explicit GatherBuffer(int padded_head_dim)
      : width_(padded_head_dim), outputs_(static_cast<size_t>(kMaxQueryRows) * padded_head_dim) {}

  void Clear(int num_queries) {
    std::fill_n(outputs_.data(), num_queries * width_, 0.0f);
    std::fill_n(maxima_, num_queries, -__builtin_inff());
    std::fill_n(sums_, num_queries, 0.0f);
  }
  // From some query on.
  Gathered View(int query = 0) { return {outputs_.data() + query * width_, maxima_ + query, sums_ + query}; }

 private:
  int width_;
  std::vector<float> outputs_;  // [kMaxQueryRows][padded_head_dim]
  float maxima_[kMaxQueryRows], sums_[kMaxQueryRows];
};

// What each thread needs for itself.
struct ThreadScratch {
  explicit ThreadScratch(int padded_head_dim);

  std::vector<float> gate, up;  // [kMaxRows][kBlock]
  std::vector<float> scores;    // [kMaxQueryRows][kChunkKeys]
  GatherBuffer part, total;
};

// The buffers of a forward pass; one set a model, since one pass runs at a time.
struct Workspace {
  explicit Workspace(const Model& model);

  // Makes room for `num_rows` rows at a time of a text of `length` tokens. Throws std::bad_alloc.
  void PrepareFor(int num_rows, int length);

  const Model& model;
  int num_rows = 0;
  std::vector<float> residual;  // [rows][hidden]
  ColumnBuffer normed, attended, gated;
  std::vector<float> projected;  // [rows][queries, keys, values of the widest layer, or three hidden]
  std::vector<float> entries;    // [rows][hidden], what goes into a short convolution
  std::vector<float> mixed;      // [rows][hidden], what is normed or scaled before it joins the residual stream
  ExpertChoice choice;
  ColumnBuffer gathered;              // rows by slot
  std::vector<float> expert_outputs;  // [slots][hidden]
  std::vector<float> queries;         // [key/value head][row][head in group][head_dim]
  std::vector<float> cosines, sines;  // [rows][head_dim / 2]
  std::vector<GatherBuffer> parts;    // of chunks, where they are divided among the threads
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
  // Queries that meet the same keys and values: a part of [row][head in group] of one key/value head.
  struct QueryRun {
    int kv_head;
    Range queries;
  };

  Range Share(int total) const { return ShareOf(total, thread_, team_.num_threads()); }
  static int64_t TileCost(const Product& product) { return static_cast<int64_t>(product.matrix->tile_bytes()); }

  void Embed(const int32_t* ids);
  void TurnAngles(const Rotary& rotary);
  void RunLayer(int index);
  void RunAttention(const Layer& layer, int index);
  void RunConvolution(const Layer& layer, int index);
  void Convolve(const Layer& layer, ConvolutionRing& ring);
  void MultiplyIntoResidual(const PackedMatrix& matrix, const float* bias, const Columns& x,
                            const std::vector<float>& norm);
  void AddToResidual(const std::vector<float>& norm);
  void Normalise(const float* weight);
  void Multiply(const Product* products, int num_products, const Columns& x);
  void MultiplyTiles(const Product& product, const Columns& x, int num_columns, Range tiles, float* y);
  void RotateAndStore(const Layer& layer, int index);
  void RotateHead(const Layer& layer, const std::vector<float>& norm, int row, float* head);
  void Attend(const Layer& layer, int index);
  QueryRun RunOfUnit(const Layer& layer, int unit) const;
  void AttendWhole(const Layer& layer, int index, QueryRun run);
  void AttendChunk(const Layer& layer, int index, QueryRun run, int chunk, const Gathered& result);
  void JoinParts(const Layer& layer, QueryRun run, GatherBuffer* parts, int num_chunks);
  void WriteAttended(const Layer& layer, QueryRun run, const Gathered& total);
  void QuantiseAttended();
  void GateAndUp(const Layer& layer, const PackedMatrix& gate_matrix, const PackedMatrix& up_matrix, const Columns& x,
                 const Columns& y, int num_columns, Range blocks);
  void RunExperts(const Layer& layer);
  void ChooseExperts(const Layer& layer, int row);
  void GroupByExpert(const Layer& layer);
  void GatherRows(const Layer& layer);
  template <class Function>
  void ForEachExpert(int units_per_expert, Function function);
  void AddExperts(const Layer& layer, int row);
  void ComputeLogits(LogitsWanted wanted, float* logits);
  void FinishLogits(float* logits);

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
