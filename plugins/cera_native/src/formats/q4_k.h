// Q4_K: 256 weights with half scale and half minimum, 6-bit ones for each 32, and codes of 4 bits. A run of 32 bytes
// holds two blocks, the first in the low nibbles.
#ifndef CERA_NATIVE_FORMATS_Q4_K_H_
#define CERA_NATIVE_FORMATS_Q4_K_H_

#include "formats/block.h"
#include "formats/k_scales.h"
#include "formats/layouts.h"

namespace cera {

struct Q4_K {
  using Codes = FourBits;
  using Scales = FineScaleAndMinimum;
  static constexpr int kZeroShift = kNoZeroPoint;
  static constexpr int kFileBlock = kSuperBlock, kFileBytes = 144;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index / 8) * kFileBytes;
    const int sub_block = index % 8;
    block->scale = ReadUint16(p);
    block->minimum = NegatedHalf(p + 2);
    ReadKScales(p + 4, sub_block, block);
    const uint8_t* nibbles = p + 16 + sub_block / 2 * 32;
    for (int i = 0; i < kBlock; ++i) block->codes[i] = nibbles[i] >> sub_block % 2 * 4 & 15;
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q4_K_H_
