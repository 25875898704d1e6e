// The gated short convolution of a layer, in place of its attention.
#include <string.h>

#include <algorithm>

#include "forward.h"

namespace cera {

void ForwardPass::RunConvolution(const Layer& layer, int index) {
  float* projected = ws_.projected.data();
  const Product in = {&layer.convolution_in, nullptr, projected, static_cast<size_t>(3 * hidden_), false};
  Multiply(&in, 1, normed_);
  team_.Barrier();
  attended_ = ws_.attended.View(hidden_);
  Convolve(layer, state_.rings[index]);
  team_.Barrier();
  QuantiseAttended();
  team_.Barrier();
  MultiplyIntoResidual(layer.convolution_out, nullptr, attended_, layer.post_attention_norm);
}

// Units of work are channels, each of which only meets itself: a thread reads and writes its own ones only.
void ForwardPass::Convolve(const Layer& layer, ConvolutionRing& ring) {
  const Range channels = Share(hidden_);
  const int num_taps = layer.num_taps(hidden_);
  for (int row = 0; row < num_rows_; ++row) {
    const float* projected = ws_.projected.data() + static_cast<size_t>(row) * 3 * hidden_;
    float* entry = ws_.entries.data() + static_cast<size_t>(row) * hidden_;
    for (int i = channels.first; i < channels.last; ++i) entry[i] = projected[i] * projected[2 * hidden_ + i];
    float* y = attended_.column(row);
    std::fill(y + channels.first, y + channels.last, 0.0f);
    for (int tap = 0; tap < num_taps; ++tap) {
      const int from_row = row - num_taps + 1 + tap;
      if (position_ + from_row < 0) continue;  // before the text
      const float* seen = from_row < 0 ? ring.entry(position_ + from_row)
                                       : ws_.entries.data() + static_cast<size_t>(from_row) * hidden_;
      for (int i = channels.first; i < channels.last; ++i) {
        y[i] += seen[i] * layer.taps[static_cast<size_t>(i) * num_taps + tap];
      }
    }
    for (int i = channels.first; i < channels.last; ++i) y[i] *= projected[hidden_ + i];
  }
  for (int row = std::max(0, num_rows_ - ring.size()); row < num_rows_; ++row) {
    const float* entry = ws_.entries.data() + static_cast<size_t>(row) * hidden_;
    std::copy(entry + channels.first, entry + channels.last, ring.entry(position_ + row) + channels.first);
    if (thread_ == 0) ring.Tag(position_ + row);
  }
}

}  // namespace cera
