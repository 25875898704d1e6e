#include "kv_cache.h"

#include <string.h>

#include <algorithm>
#include <utility>

namespace cera {
namespace {

int NumChunks(int length) { return (length + kChunkKeys - 1) / kChunkKeys; }

}  // namespace

KvCache::KvCache(const CacheShape& shape) {
  const size_t element_bytes = shape.half ? sizeof(uint16_t) : sizeof(float);
  key_bytes_ = element_bytes * kChunkKeys * shape.head_dim;
  value_bytes_ = element_bytes * kChunkKeys * shape.padded_head_dim();
  for (size_t layer = 0; layer < shape.num_kv_heads.size(); ++layer) {
    Chunks& chunks = shape.windows[layer] > 0 ? windowed_ : whole_;
    places_.push_back({shape.windows[layer] > 0, chunks.chunk_bytes});
    chunks.chunk_bytes += shape.num_kv_heads[layer] * (key_bytes_ + value_bytes_);
    longest_window_ = std::max(longest_window_, shape.windows[layer]);
  }
}

void KvCache::Reserve(int length) {
  const int old_length = (whole_.first + static_cast<int>(whole_.pages.size())) * kChunkKeys;
  whole_.Reserve(NumChunks(length));
  try {
    windowed_.Reserve(NumChunks(length));
  } catch (...) {
    whole_.Shrink(NumChunks(old_length));
    throw;
  }
}

void KvCache::Shrink(int length) {
  whole_.Shrink(NumChunks(length));
  windowed_.Shrink(NumChunks(length));
}

void KvCache::Forget(int oldest) {
  const int first_seen = std::max(0, oldest - longest_window_ + 1);
  while (!windowed_.pages.empty() && windowed_.first < first_seen / kChunkKeys) {
    windowed_.pages.pop_front();
    ++windowed_.first;
  }
}

int KvCache::oldest() const { return windowed_.first == 0 ? 0 : windowed_.first * kChunkKeys + longest_window_ - 1; }

void KvCache::CopyFrom(const KvCache& other, int length) {
  windowed_.first = other.windowed_.first;
  Reserve(length);
  for (const auto& [from, to] : {std::pair{&other.whole_, &whole_}, std::pair{&other.windowed_, &windowed_}}) {
    for (size_t i = 0; i < to->pages.size(); ++i) memcpy(to->pages[i].data(), from->pages[i].data(), to->chunk_bytes);
  }
}

void KvCache::Chunks::Reserve(int num_chunks) {
  if (chunk_bytes == 0) return;  // there is no such layer
  const size_t old_size = pages.size();
  try {
    while (first + static_cast<int>(pages.size()) < num_chunks) pages.emplace_back(chunk_bytes);
  } catch (...) {
    while (pages.size() > old_size) pages.pop_back();
    throw;
  }
}

void KvCache::Chunks::Shrink(int num_chunks) {
  while (!pages.empty() && first + static_cast<int>(pages.size()) > num_chunks) pages.pop_back();
}

}  // namespace cera
