#include "forward.h"

#include <math.h>
#include <string.h>

#include <algorithm>

namespace cera {
namespace {

const float* DataOrNull(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

}  // namespace

void ColumnBuffer::Resize(int num_columns, int most_width) {
  const size_t size = static_cast<size_t>(num_columns) * most_width;
  values.resize(size);
  codes.resize(size);
  sums.resize(size / kBlock);
}

ThreadScratch::ThreadScratch(int padded_head_dim)
    : gate(kMaxRows * kBlock),
      up(kMaxRows * kBlock),
      scores(kMaxQueryRows * kChunkKeys),
      part(padded_head_dim),
      total(padded_head_dim) {}

Workspace::Workspace(const Model& model)
    : model(model),
      scratch(static_cast<size_t>(model.num_threads()), ThreadScratch(model.cache_shape().padded_head_dim())) {}

void Workspace::PrepareFor(int new_num_rows, int length) {
  const size_t num_chunks = static_cast<size_t>((length + kChunkKeys - 1) / kChunkKeys);
  const size_t num_parts = num_chunks > 1 ? num_chunks * (static_cast<size_t>(model.num_threads()) - 1) : 0;
  if (num_parts > parts.size()) parts.resize(num_parts, GatherBuffer(model.cache_shape().padded_head_dim()));
  if (new_num_rows <= num_rows) return;
  num_rows = 0;  // should there not be enough memory
  int most_heads = 0, most_kv_heads = 0, most_feed_forward = 0, most_experts = 0, most_used = 0;
  for (const Layer& layer : model.layers()) {
    most_experts = std::max(most_experts, layer.num_experts);
    most_used = std::max(most_used, layer.num_used);
    most_heads = std::max(most_heads, layer.num_heads);
    most_kv_heads = std::max(most_kv_heads, layer.num_kv_heads);
    most_feed_forward = std::max(most_feed_forward, layer.feed_forward_size);
  }
  const int hidden = model.shape().hidden_size, head_dim = model.shape().head_dim;
  const size_t rows = static_cast<size_t>(new_num_rows);
  residual.resize(rows * hidden);
  normed.Resize(new_num_rows, hidden);
  attended.Resize(new_num_rows, std::max(most_heads * head_dim, hidden));
  gated.Resize(new_num_rows * std::max(1, most_used), most_feed_forward);
  if (most_used > 0) {
    choice.Resize(new_num_rows, most_experts, most_used);
    gathered.Resize(new_num_rows * most_used, hidden);
    expert_outputs.resize(rows * most_used * hidden);
  }
  projected.resize(rows * std::max((most_heads + 2 * most_kv_heads) * head_dim, 3 * hidden));
  entries.resize(rows * hidden);
  mixed.resize(rows * hidden);
  queries.resize(rows * most_heads * head_dim);
  cosines.resize(rows * head_dim / 2);
  sines.resize(rows * head_dim / 2);
  num_rows = new_num_rows;
}

ForwardPass::ForwardPass(const Model& model, State& state, Workspace& workspace, Team& team, int thread)
    : model_(model),
      kernels_(model.kernels()),
      state_(state),
      ws_(workspace),
      team_(team),
      thread_(thread),
      hidden_(model.shape().hidden_size),
      head_dim_(model.shape().head_dim) {}

void ForwardPass::Run(const int32_t* ids, int num_rows, int position, LogitsWanted wanted, float* logits) {
  num_rows_ = num_rows;
  position_ = position;
  normed_ = ws_.normed.View(hidden_);
  Embed(ids);
  const Rotary* rotary = nullptr;
  for (size_t i = 0; i < model_.layers().size(); ++i) {
    const Layer& layer = model_.layers()[i];
    if (rotary == nullptr || rotary->frequencies != layer.rotary.frequencies ||
        rotary->magnitude != layer.rotary.magnitude)
      TurnAngles(layer.rotary);
    rotary = &layer.rotary;
    team_.Barrier();
    RunLayer(static_cast<int>(i));
  }
  team_.Barrier();
  if (wanted != LogitsWanted::kNone) ComputeLogits(wanted, logits);
  team_.Barrier();
}

void ForwardPass::Embed(const int32_t* ids) {
  const Range rows = Share(num_rows_);
  for (int i = rows.first; i < rows.last; ++i) {
    float* x = ws_.residual.data() + static_cast<size_t>(i) * hidden_;
    model_.embedding().ReadRow(ids[i], x);
    const float scale = model_.shape().embedding_scale;
    for (int k = 0; scale != 1.0f && k < hidden_; ++k) x[k] *= scale;
  }
}

void ForwardPass::TurnAngles(const Rotary& rotary) {
  const Range rows = Share(num_rows_);
  for (int i = rows.first; i < rows.last; ++i) {
    const size_t offset = static_cast<size_t>(i) * (head_dim_ / 2);
    RotaryAngles(rotary, position_ + i, ws_.cosines.data() + offset, ws_.sines.data() + offset);
  }
}

void ForwardPass::RunLayer(int index) {
  const Layer& layer = model_.layers()[index];
  gated_ = ws_.gated.View(layer.feed_forward_size);
  Normalise(layer.attention_norm.data());
  team_.Barrier();
  if (layer.is_convolution())
    RunConvolution(layer, index);
  else
    RunAttention(layer, index);
  team_.Barrier();
  Normalise(layer.feed_forward_norm.data());
  team_.Barrier();
  if (layer.num_experts > 0) return RunExperts(layer);
  const Range blocks = Share((layer.feed_forward_size + kBlock - 1) / kBlock);
  GateAndUp(layer, layer.gate, layer.up, normed_, gated_, num_rows_, blocks);
  team_.Barrier();
  MultiplyIntoResidual(layer.down, nullptr, gated_, layer.post_feed_forward_norm);
}

void ForwardPass::RunAttention(const Layer& layer, int index) {
  const int queries = layer.num_heads * head_dim_, keys = layer.num_kv_heads * head_dim_;
  const size_t width = static_cast<size_t>(queries + 2 * keys);
  float* projected = ws_.projected.data();
  attended_ = ws_.attended.View(queries);
  const Product projections[] = {
      {&layer.query, DataOrNull(layer.query_bias), projected, width, false},
      {&layer.key, DataOrNull(layer.key_bias), projected + queries, width, false},
      {&layer.value, DataOrNull(layer.value_bias), projected + queries + keys, width, false}};
  Multiply(projections, 3, normed_);
  team_.Barrier();
  RotateAndStore(layer, index);
  team_.Barrier();
  Attend(layer, index);
  team_.Barrier();
  if (head_dim_ % kBlock != 0) {  // blocks span heads, so they are only known now
    QuantiseAttended();
    team_.Barrier();
  }
  MultiplyIntoResidual(layer.output, DataOrNull(layer.output_bias), attended_, layer.post_attention_norm);
}

// Where nothing stands between product and sum, the product is added as it is computed.
void ForwardPass::MultiplyIntoResidual(const PackedMatrix& matrix, const float* bias, const Columns& x,
                                       const std::vector<float>& norm) {
  const bool is_direct = norm.empty() && model_.shape().residual_scale == 1.0f;
  float* y = is_direct ? ws_.residual.data() : ws_.mixed.data();
  const Product product = {&matrix, bias, y, static_cast<size_t>(hidden_), is_direct};
  Multiply(&product, 1, x);
  if (is_direct) return;
  team_.Barrier();
  AddToResidual(norm);
}

// Units of work are rows.
void ForwardPass::AddToResidual(const std::vector<float>& norm) {
  const float factor = model_.shape().residual_scale;
  const Range rows = Share(num_rows_);
  for (int row = rows.first; row < rows.last; ++row) {
    float* x = ws_.mixed.data() + static_cast<size_t>(row) * hidden_;
    if (!norm.empty()) {
      kernels_.scale_by(x, kernels_.rms_scale(x, hidden_, model_.shape().rms_eps), norm.data(), 0, hidden_, x);
    }
    float* residual = ws_.residual.data() + static_cast<size_t>(row) * hidden_;
    for (int i = 0; i < hidden_; ++i) residual[i] += x[i] * factor;
  }
}

// Units of work are blocks of 32 elements of a row, so that one row occupies all threads too.
void ForwardPass::Normalise(const float* weight) {
  const int blocks_per_row = (hidden_ + kBlock - 1) / kBlock;
  const Range share = Share(num_rows_ * blocks_per_row);
  for (int unit = share.first; unit < share.last;) {
    const int row = unit / blocks_per_row, first_block = unit % blocks_per_row;
    const int last_block = std::min(blocks_per_row, first_block + share.last - unit);
    const float* x = ws_.residual.data() + static_cast<size_t>(row) * hidden_;
    const float scale = kernels_.rms_scale(x, hidden_, model_.shape().rms_eps);
    const int first = first_block * kBlock, last = std::min(hidden_, last_block * kBlock);
    float* y = normed_.column(row);
    kernels_.scale_by(x, scale, weight, first, last, y);
    const int num_whole_blocks = std::min(last_block, hidden_ / kBlock);
    kernels_.quantise(y + first, row, first_block, num_whole_blocks, normed_.Quantised(num_rows_));
    unit += last_block - first_block;
  }
}

void ForwardPass::QuantiseAttended() {
  const Range rows = Share(num_rows_);
  for (int row = rows.first; row < rows.last; ++row) {
    kernels_.quantise(attended_.column(row), row, 0, attended_.width / kBlock, attended_.Quantised(num_rows_));
  }
}

void ForwardPass::MultiplyTiles(const Product& product, const Columns& x, int num_columns, Range tiles, float* y) {
  const PackedMatrix& matrix = *product.matrix;
  MultiplyArgs args;
  args.tiles = matrix.tiles();
  args.tile_bytes = matrix.tile_bytes();
  args.num_rows = matrix.num_rows();
  args.num_inner = matrix.num_columns();
  args.first_tile = tiles.first;
  args.num_tiles = tiles.last - tiles.first;
  args.quantised = x.Quantised(num_columns);
  args.values = x.values;
  args.values_stride = static_cast<size_t>(x.width);
  args.num_columns = num_columns;
  args.bias = product.bias;
  args.y = y;
  args.y_stride = product.y_stride;
  args.add = product.add;
  kernels_.multiply[matrix.type()](args);
}

// Each thread takes an equal share of the bytes of all the products, as one run of tiles.
void ForwardPass::Multiply(const Product* products, int num_products, const Columns& x) {
  int64_t total = 0;
  for (int i = 0; i < num_products; ++i) total += products[i].matrix->num_tiles() * TileCost(products[i]);
  const int64_t first = total * thread_ / team_.num_threads(), last = total * (thread_ + 1) / team_.num_threads();
  int64_t offset = 0;  // of the product in the total
  for (int i = 0; i < num_products; ++i) {
    const int64_t cost = TileCost(products[i]);
    const int num_tiles = products[i].matrix->num_tiles();
    // A tile belongs to the thread in whose share it begins.
    const auto first_tile_from = [&](int64_t position) {
      return static_cast<int>(std::clamp<int64_t>((position - offset + cost - 1) / cost, 0, num_tiles));
    };
    const Range tiles = {first < offset ? 0 : first_tile_from(first), last <= offset ? 0 : first_tile_from(last)};
    if (tiles.first < tiles.last)
      MultiplyTiles(products[i], x, num_rows_, tiles, products[i].y + tiles.first * kTileRows);
    offset += cost * num_tiles;
  }
}

// Gate, up, and the product of the two, block by block: what a block needs stays in the cache.
void ForwardPass::GateAndUp(const Layer& layer, const PackedMatrix& gate_matrix, const PackedMatrix& up_matrix,
                            const Columns& x, const Columns& y, int num_columns, Range blocks) {
  ThreadScratch& own = ws_.scratch[thread_];
  const Product gate = {&gate_matrix, nullptr, nullptr, kBlock, false},
                up = {&up_matrix, nullptr, nullptr, kBlock, false};
  const int num_tiles = gate_matrix.num_tiles(), tiles_per_block = kBlock / kTileRows;
  const auto multiply = model_.shape().gelu ? kernels_.gelu_multiply : kernels_.silu_multiply;
  for (int block = blocks.first; block < blocks.last; ++block) {
    const Range tiles = {block * tiles_per_block, std::min(num_tiles, (block + 1) * tiles_per_block)};
    MultiplyTiles(gate, x, num_columns, tiles, own.gate.data());
    MultiplyTiles(up, x, num_columns, tiles, own.up.data());
    const int num_elements = std::min(kBlock, layer.feed_forward_size - block * kBlock);
    for (int column = 0; column < num_columns; ++column) {
      const size_t offset = static_cast<size_t>(column) * kBlock;
      float* to = y.column(column) + block * kBlock;
      multiply(own.gate.data() + offset, own.up.data() + offset, num_elements, to);
      if (num_elements == kBlock) kernels_.quantise(to, column, block, block + 1, y.Quantised(num_columns));
    }
  }
}

void ForwardPass::ComputeLogits(LogitsWanted wanted, float* logits) {
  if (wanted == LogitsWanted::kLast && num_rows_ > 1) {
    if (thread_ == 0) {
      memcpy(ws_.residual.data(), ws_.residual.data() + static_cast<size_t>(num_rows_ - 1) * hidden_,
             static_cast<size_t>(hidden_) * sizeof(float));
    }
    num_rows_ = 1;
    team_.Barrier();
  }
  Normalise(model_.output_norm().data());
  team_.Barrier();
  const Product head = {&model_.head(), nullptr, logits, static_cast<size_t>(model_.shape().vocab_size), false};
  Multiply(&head, 1, normed_);
  team_.Barrier();
  FinishLogits(logits);
}

// Divides, and gives what is no number the same bits everywhere: its sign and payload are the processor's choice.
void ForwardPass::FinishLogits(float* logits) {
  const int vocab = model_.shape().vocab_size;
  const float divisor = model_.shape().logit_divisor;
  const Range share = Share(vocab);
  for (int row = 0; row < num_rows_; ++row) {
    float* y = logits + static_cast<size_t>(row) * vocab;
    if (divisor != 1.0f) {
      for (int i = share.first; i < share.last; ++i) y[i] /= divisor;
    }
    for (int i = share.first; i < share.last; ++i) y[i] = y[i] == y[i] ? y[i] : __builtin_nanf("");
  }
}

}  // namespace cera
