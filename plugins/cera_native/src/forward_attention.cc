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
  const float query_scale = 1.0f / __builtin_sqrtf(static_cast<float>(head_dim_));
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

// Units of work are runs of queries of one key/value head; all heads of its group read each key and value once.
void ForwardPass::Attend(const Layer& layer, int index) {
  const int num_queries = num_rows_ * layer.group_size();
  const int runs_per_head = (num_queries + kMaxQueryRows - 1) / kMaxQueryRows;
  for (int unit = thread_; unit < layer.num_kv_heads * runs_per_head; unit += team_.num_threads()) {
    const int first = unit % runs_per_head * kMaxQueryRows;
    const Range queries = {first, std::min(num_queries, first + kMaxQueryRows)};
    AttendQueries(layer, index, unit / runs_per_head, queries);
    WriteAttended(layer, unit / runs_per_head, queries);
  }
}

void ForwardPass::AttendQueries(const Layer& layer, int index, int kv_head, Range queries) {
  ThreadScratch& own = ws_.scratch[thread_];
  const int num_queries = queries.last - queries.first, group = layer.group_size();
  const size_t first_query = static_cast<size_t>(kv_head) * num_rows_ * group + queries.first;
  int num_visible[kMaxQueryRows];
  AttendArgs args = {};
  args.head_dim = head_dim_;
  args.padded_head_dim = model_.cache_shape().padded_head_dim();
  args.queries = ws_.queries.data() + first_query * head_dim_;
  args.num_visible = num_visible;
  args.num_queries = num_queries;
  args.scores = own.scores.data();
  args.partial = own.partial.data();
  args.output = own.output.data();
  args.maxima = own.maxima;
  args.sums = own.sums;
  std::fill_n(own.maxima, num_queries, -__builtin_inff());
  std::fill_n(own.sums, num_queries, 0.0f);
  std::fill_n(own.output.data(), num_queries * args.padded_head_dim, 0.0f);
  const int last_position = position_ + (queries.last - 1) / group;
  for (int chunk = 0; chunk <= last_position / kChunkKeys; ++chunk) {
    for (int i = 0; i < num_queries; ++i) {
      const int num_keys = position_ + (queries.first + i) / group + 1;
      num_visible[i] = std::min(kChunkKeys, num_keys - chunk * kChunkKeys);
    }
    args.keys = state_.cache.keys(chunk, index, kv_head);
    args.values = state_.cache.values(chunk, index, kv_head);
    kernels_.attend(args, model_.cache_shape().half);
  }
}

void ForwardPass::WriteAttended(const Layer& layer, int kv_head, Range queries) {
  ThreadScratch& own = ws_.scratch[thread_];
  const int group = layer.group_size(), blocks_per_head = head_dim_ / kBlock;
  for (int query = queries.first; query < queries.last; ++query) {
    const int i = query - queries.first, row = query / group, head = kv_head * group + query % group;
    float* y = attended_.column(row) + head * head_dim_;
    kernels_.divide(own.output.data() + i * model_.cache_shape().padded_head_dim(), own.sums[i], head_dim_, y);
    if (head_dim_ % kBlock == 0) {
      const int first_block = head * blocks_per_head;
      kernels_.quantise(y, row, first_block, first_block + blocks_per_head, attended_.Quantised(num_rows_));
    }
  }
}

}  // namespace cera
