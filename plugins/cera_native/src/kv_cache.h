// Keys and values of one session, in chunks that are added as the session grows.
#ifndef CERA_NATIVE_KV_CACHE_H_
#define CERA_NATIVE_KV_CACHE_H_

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "arena.h"
#include "kernels.h"

namespace cera {

struct CacheShape {
  std::vector<int> num_kv_heads;  // of each layer
  int head_dim;
  bool half;  // elements are half precision, else single

  int padded_head_dim() const { return (head_dim + 15) / 16 * 16; }
};

// A chunk holds kChunkKeys positions of all layers. Within it the keys of a head are interleaved by sixteen, so that a
// register holds one element of sixteen keys; its values lie one after the other.
class KvCache {
 public:
  explicit KvCache(const CacheShape& shape);

  // Makes room for positions below `length`. Throws std::bad_alloc and is then as before.
  void Reserve(int length);
  // Gives back the chunks no position below `length` needs.
  void Shrink(int length);
  // Makes room for `length` positions and copies them from another cache of the same shape.
  void CopyFrom(const KvCache& other, int length);

  void* keys(int chunk, int layer, int head) const { return chunks_[chunk].data() + KeyOffset(layer, head); }
  void* values(int chunk, int layer, int head) const {
    return chunks_[chunk].data() + KeyOffset(layer, head) + key_bytes_;
  }
  size_t num_bytes() const { return chunks_.size() * chunk_bytes_; }

 private:
  size_t KeyOffset(int layer, int head) const { return layer_offsets_[layer] + head * (key_bytes_ + value_bytes_); }

  size_t key_bytes_, value_bytes_;  // of one head in one chunk
  size_t chunk_bytes_ = 0;
  std::vector<size_t> layer_offsets_;
  std::vector<Pages> chunks_;
};

}  // namespace cera

#endif  // CERA_NATIVE_KV_CACHE_H_
