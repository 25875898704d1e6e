#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cera {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kPieceBytes = size_t{16} << 20;
constexpr size_t kAlignment = 64;
constexpr size_t kMostBytes = size_t{1} << 46;  // no sum below can overflow

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Pages::Pages(size_t num_bytes) {
  if (num_bytes > kMostBytes) throw std::bad_alloc();
  size_ = RoundUp(std::max(num_bytes, size_t{1}), num_bytes < kHugePage ? 4096 : kHugePage);
  void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<uint8_t*>(data);
#ifdef MADV_HUGEPAGE
  if (size_ >= kHugePage) madvise(data, size_, MADV_HUGEPAGE);  // a wish: without it all works, slower
#endif
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, size_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

uint8_t* Arena::Allocate(size_t num_bytes) {
  if (num_bytes > kMostBytes) throw std::bad_alloc();
  num_bytes = RoundUp(num_bytes, kAlignment);
  if (pages_.empty() || pages_.back().size() - used_ < num_bytes) {
    pages_.emplace_back(std::max(num_bytes, kPieceBytes));
    used_ = 0;
  }
  uint8_t* data = pages_.back().data() + used_;
  used_ += num_bytes;
  return data;
}

}  // namespace cera
