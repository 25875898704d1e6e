// What went into one short convolution at the last positions of a session.
#ifndef CERA_NATIVE_CONVOLUTION_RING_H_
#define CERA_NATIVE_CONVOLUTION_RING_H_

#include <stddef.h>

#include <vector>

namespace cera {

// Each entry is tagged with its position: the convolution's state at any length is the entries just before it, and one
// that is not there any more is noticed.
class ConvolutionRing {
 public:
  // Holds what `num_before` positions back is seen, at any length up to `headroom` below the longest there was.
  ConvolutionRing(int num_before, int headroom, int hidden)
      : num_before_(num_before),
        hidden_(hidden),
        positions_(static_cast<size_t>(num_before + headroom), -1),
        values_(positions_.size() * hidden) {}

  int size() const { return static_cast<int>(positions_.size()); }
  const float* entry(int position) const { return values_.data() + Place(position) * hidden_; }
  float* entry(int position) { return values_.data() + Place(position) * hidden_; }
  void Tag(int position) { positions_[Place(position)] = position; }

  // Whether everything a token at position `length` sees is there; before the text there is nothing to hold.
  bool HoldsStateAt(int length) const {
    for (int position = length - num_before_; position < length; ++position) {
      if (position >= 0 && positions_[Place(position)] != position) return false;
    }
    return true;
  }

 private:
  size_t Place(int position) const { return static_cast<size_t>(position) % positions_.size(); }

  int num_before_, hidden_;
  std::vector<int> positions_;
  std::vector<float> values_;  // [size][hidden]
};

}  // namespace cera

#endif  // CERA_NATIVE_CONVOLUTION_RING_H_
