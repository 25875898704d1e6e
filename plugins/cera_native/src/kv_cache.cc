#include "kv_cache.h"

#include <string.h>

namespace cera {
namespace {

int NumChunks(int length) { return (length + kChunkKeys - 1) / kChunkKeys; }

}  // namespace

KvCache::KvCache(const CacheShape& shape) {
  const size_t element_bytes = shape.half ? sizeof(uint16_t) : sizeof(float);
  key_bytes_ = element_bytes * kChunkKeys * shape.head_dim;
  value_bytes_ = element_bytes * kChunkKeys * shape.padded_head_dim();
  for (int num_kv_heads : shape.num_kv_heads) {
    layer_offsets_.push_back(chunk_bytes_);
    chunk_bytes_ += num_kv_heads * (key_bytes_ + value_bytes_);
  }
}

void KvCache::Reserve(int length) {
  const size_t old_size = chunks_.size(), size = static_cast<size_t>(NumChunks(length));
  try {
    while (chunks_.size() < size) chunks_.emplace_back(chunk_bytes_);
  } catch (...) {
    while (chunks_.size() > old_size) chunks_.pop_back();
    throw;
  }
}

void KvCache::Shrink(int length) {
  while (chunks_.size() > static_cast<size_t>(NumChunks(length))) chunks_.pop_back();
}

void KvCache::CopyFrom(const KvCache& other, int length) {
  Reserve(length);
  for (int i = 0; i < NumChunks(length); ++i) memcpy(chunks_[i].data(), other.chunks_[i].data(), chunk_bytes_);
}

}  // namespace cera
