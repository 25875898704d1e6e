// Keys and values of one session, in chunks that are added as the session grows.
#ifndef CERA_NATIVE_KV_CACHE_H_
#define CERA_NATIVE_KV_CACHE_H_

#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <vector>

#include "arena.h"
#include "kernels.h"

namespace cera {

struct CacheShape {
  std::vector<int> num_kv_heads;  // of each layer
  std::vector<int> windows;       // of each layer, how many keys a query sees, 0 for all
  int head_dim;
  bool half;  // elements are half precision, else single

  int padded_head_dim() const { return (head_dim + 15) / 16 * 16; }
};

// A chunk holds kChunkKeys positions of all layers that see the whole text, another those of all with a window, so that
// the latter can be given back when no query sees them any more. Within a chunk the keys of a head are interleaved by
// sixteen, so that a register holds one element of sixteen keys; its values lie one after the other.
class KvCache {
 public:
  explicit KvCache(const CacheShape& shape);

  // Makes room for positions below `length`. Throws std::bad_alloc and is then as before.
  void Reserve(int length);
  // Gives back the chunks no position below `length` needs.
  void Shrink(int length);
  // Gives back what layers with a window hold of positions before all that a query at `oldest` or later sees.
  void Forget(int oldest);
  // The first position at which a query finds all it sees.
  int oldest() const;
  // Makes room for `length` positions and copies them from another cache of the same shape.
  void CopyFrom(const KvCache& other, int length);

  uint8_t* keys(int chunk, int layer, int head) const {
    const Place& place = places_[layer];
    const Chunks& held = place.has_window ? windowed_ : whole_;
    return held.pages[chunk - held.first].data() + place.offset + head * (key_bytes_ + value_bytes_);
  }
  uint8_t* values(int chunk, int layer, int head) const { return keys(chunk, layer, head) + key_bytes_; }
  size_t num_bytes() const { return whole_.num_bytes() + windowed_.num_bytes(); }

 private:
  struct Chunks {
    void Reserve(int num_chunks);
    void Shrink(int num_chunks);
    size_t num_bytes() const { return pages.size() * chunk_bytes; }

    size_t chunk_bytes = 0;
    int first = 0;  // the chunks before were given back
    std::deque<Pages> pages;
  };
  struct Place {
    bool has_window;
    size_t offset;  // in a chunk
  };

  size_t key_bytes_, value_bytes_;  // of one head in one chunk
  int longest_window_ = 0;
  std::vector<Place> places_;  // of each layer
  Chunks whole_, windowed_;
};

}  // namespace cera

#endif  // CERA_NATIVE_KV_CACHE_H_
