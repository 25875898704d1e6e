// Q6_K: 256 codes of 6 bits around 32 (128 bytes of low nibbles, 64 of high bits), signed 8-bit scales for each 16, and
// a half scale. Each half of 128 weights: 32 bytes of high bits hold those of four blocks, two bits each; 64 bytes of
// nibbles hold blocks 0 and 1 in their low halves, 2 and 3 in their high ones.
#ifndef CERA_NATIVE_FORMATS_Q6_K_H_
#define CERA_NATIVE_FORMATS_Q6_K_H_

#include "formats/block.h"
#include "formats/layouts.h"

namespace cera {

struct Q6_K {
  using Codes = SixBits;
  using Scales = FineHalfScales;
  static constexpr int kZeroShift = 5;
  static constexpr int kFileBlock = kSuperBlock, kFileBytes = 210;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index / 8) * kFileBytes;
    const int half = index % 8 / 4, quarter = index % 4;
    const uint8_t* nibbles = p + half * 64 + quarter % 2 * 32;
    const uint8_t* high_bits = p + 128 + half * 32;
    for (int i = 0; i < kBlock; ++i) {
      const int low = nibbles[i] >> quarter / 2 * 4 & 15, high = high_bits[i] >> quarter * 2 & 3;
      block->codes[i] = static_cast<uint8_t>(low | high << 4);
    }
    const uint8_t* fine_scales = p + 192 + index % 8 * 2;
    block->fine_scales[0] = static_cast<int8_t>(fine_scales[0]);
    block->fine_scales[1] = static_cast<int8_t>(fine_scales[1]);
    block->scale = ReadUint16(p + 208);
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q6_K_H_
