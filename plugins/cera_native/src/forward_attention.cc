// The part of a forward pass between the projections: heads turned, keys and values stored, attention.
#include <algorithm>

#include "forward.h"

namespace cera {

void ForwardPass::RotateHead(const Layer& layer, const std::vector<float>& norm, int row, float* head) {
  if (!norm.empty()) {
    const float scale = kernels_.rms_scale(head, head_dim_, model_.shape().rms_eps);
    kernels_.scale_by(head, scale, norm.data(), 0, head_dim_, head);
  }
  const size_t offset = static_cast<size_t>(row) * (head_dim_ / 2);
  kernels_.rotate(head, ws_.cosines.data() + offset, ws_.sines.data() + offset, layer.rotary.num_pairs(),
                  layer.rotary.interleaved);
}

// Units of work are heads: queries are turned and sorted by key/value head, keys and values go into the cache.
void ForwardPass::RotateAndStore(const Layer& layer, int index) {
  const bool half = model_.cache_shape().half;
  const int padded_head_dim = model_.cache_shape().padded_head_dim();
  const int num_heads = layer.num_heads, num_kv_heads = layer.num_kv_heads, group = layer.group_size();
  const int heads_per_row = num_heads + 2 * num_kv_heads;
  const float query_scale = model_.query_scale();
  const Range share = Share(num_rows_ * heads_per_row);
  for (int unit = share.first; unit < share.last; ++unit) {
    const int row = unit / heads_per_row, slot = unit % heads_per_row;
    float* head = ws_.projected.data() + static_cast<size_t>(unit) * head_dim_;
    const int chunk = (position_ + row) / kChunkKeys, place = (position_ + row) % kChunkKeys;
    if (slot < num_heads) {
      RotateHead(layer, layer.query_norm, row, head);
      const size_t query = (static_cast<size_t>(slot / group) * num_rows_ + row) * group + slot % group;
      float* to = ws_.queries.data() + query * head_dim_;
      for (int d = 0; d < head_dim_; ++d) to[d] = head[d] * query_scale;
    } else if (slot < num_heads + num_kv_heads) {
      RotateHead(layer, layer.key_norm, row, head);
      kernels_.store_key(head, head_dim_, place, half, state_.cache.keys(chunk, index, slot - num_heads));
    } else {
      void* values = state_.cache.values(chunk, index, slot - num_heads - num_kv_heads);
      kernels_.store_value(head, head_dim_, padded_head_dim, place, half, values);
    }
  }
}

ForwardPass::QueryRun ForwardPass::RunOfUnit(const Layer& layer, int unit) const {
  const int num_queries = num_rows_ * layer.group_size();
  const int runs_per_head = (num_queries + kMaxQueryRows - 1) / kMaxQueryRows;
  const int first = unit % runs_per_head * kMaxQueryRows;
  return {unit / runs_per_head, {first, std::min(num_queries, first + kMaxQueryRows)}};
}

// Units of work are runs of queries of one key/value head; all heads of its group read each key and value once. Units
// left over when each thread has as many would keep one thread waiting for another, so they are divided by chunks.
void ForwardPass::Attend(const Layer& layer, int index) {
  const int num_threads = team_.num_threads();
  const int num_queries = num_rows_ * layer.group_size();
  const int num_units = layer.num_kv_heads * ((num_queries + kMaxQueryRows - 1) / kMaxQueryRows);
  const int num_chunks = (position_ + num_rows_ - 1) / kChunkKeys + 1;
  const int num_whole = num_chunks == 1 ? num_units : num_units / num_threads * num_threads;
  for (int unit = thread_; unit < num_whole; unit += num_threads) AttendWhole(layer, index, RunOfUnit(layer, unit));
  if (num_whole == num_units) return;
  const int num_parts = (num_units - num_whole) * num_chunks;
  for (int part = thread_; part < num_parts; part += num_threads) {
    const QueryRun run = RunOfUnit(layer, num_whole + part / num_chunks);
    AttendChunk(layer, index, run, part % num_chunks, ws_.parts[part].View());
  }
  team_.Barrier();
  for (int unit = num_whole; unit < num_units; ++unit) {
    JoinParts(layer, RunOfUnit(layer, unit), &ws_.parts[(unit - num_whole) * num_chunks], num_chunks);
  }
}

void ForwardPass::AttendWhole(const Layer& layer, int index, QueryRun run) {
  ThreadScratch& own = ws_.scratch[thread_];
  own.total.Clear(run.queries.size());
  const int last_position = position_ + (run.queries.last - 1) / layer.group_size();
  const int first_seen = layer.FirstSeen(position_ + run.queries.first / layer.group_size());
  for (int chunk = first_seen / kChunkKeys; chunk <= last_position / kChunkKeys; ++chunk) {
    AttendChunk(layer, index, run, chunk, own.part.View());
    kernels_.join(own.part.View(), run.queries.size(), model_.cache_shape().padded_head_dim(), own.total.View());
  }
  WriteAttended(layer, run, own.total.View());
}

void ForwardPass::AttendChunk(const Layer& layer, int index, QueryRun run, int chunk, const Gathered& result) {
  const int group = layer.group_size();
  int num_visible[kMaxQueryRows], first_visible[kMaxQueryRows], num_queries = 0;
  for (int i = 0; i < run.queries.size(); ++i) {
    const int position = position_ + (run.queries.first + i) / group;
    num_visible[i] = std::min(kChunkKeys, position + 1 - chunk * kChunkKeys);
    first_visible[i] = std::max(0, layer.FirstSeen(position) - chunk * kChunkKeys);
    if (first_visible[i] < kChunkKeys) num_queries = i + 1;  // those after it see later chunks only
  }
  std::fill(result.sums + num_queries, result.sums + run.queries.size(), 0.0f);
  if (num_queries == 0) return;
  const size_t first_query = static_cast<size_t>(run.kv_head) * num_rows_ * group + run.queries.first;
  AttendArgs args;
  args.keys = state_.cache.keys(chunk, index, run.kv_head);
  args.values = state_.cache.values(chunk, index, run.kv_head);
  args.head_dim = head_dim_;
  args.padded_head_dim = model_.cache_shape().padded_head_dim();
  args.queries = ws_.queries.data() + first_query * head_dim_;
  args.num_visible = num_visible;
  args.num_queries = num_queries;
  if (layer.window > 0) args.first_visible = first_visible;
  args.scores = ws_.scratch[thread_].scores.data();
  args.result = result;
  kernels_.attend(args, model_.cache_shape().half);
}

// Joins what was gathered from each chunk, in their order, for this thread's share of the queries.
void ForwardPass::JoinParts(const Layer& layer, QueryRun run, GatherBuffer* parts, int num_chunks) {
  const int padded_head_dim = model_.cache_shape().padded_head_dim();
  const Range share = Share(run.queries.size());
  const QueryRun own_run = {run.kv_head, {run.queries.first + share.first, run.queries.first + share.last}};
  GatherBuffer& total = ws_.scratch[thread_].total;
  total.Clear(share.size());
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    kernels_.join(parts[chunk].View(share.first), share.size(), padded_head_dim, total.View());
  }
  WriteAttended(layer, own_run, total.View());
}

void ForwardPass::WriteAttended(const Layer& layer, QueryRun run, const Gathered& total) {
  const int group = layer.group_size(), blocks_per_head = head_dim_ / kBlock;
  for (int i = 0; i < run.queries.size(); ++i) {
    const int query = run.queries.first + i, row = query / group, head = run.kv_head * group + query % group;
    float* y = attended_.column(row) + head * head_dim_;
    kernels_.divide(total.outputs + i * model_.cache_shape().padded_head_dim(), total.sums[i], head_dim_, y);
    if (head_dim_ % kBlock == 0) {
      const int first_block = head * blocks_per_head;
      kernels_.quantise(y, row, first_block, first_block + blocks_per_head, attended_.Quantised(num_rows_));
    }
  }
}

}  // namespace cera
