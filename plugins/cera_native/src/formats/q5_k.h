// Q5_K: like Q4_K with 32 bytes of fifth bits before the nibbles; bit b of byte i belongs to weight i of block b.
#ifndef CERA_NATIVE_FORMATS_Q5_K_H_
#define CERA_NATIVE_FORMATS_Q5_K_H_

#include "formats/block.h"
#include "formats/k_scales.h"
#include "formats/layouts.h"

namespace cera {

struct Q5_K {
  using Codes = FiveBits;
  using Scales = FineScaleAndMinimum;
  static constexpr int kZeroShift = kNoZeroPoint;
  static constexpr int kFileBlock = kSuperBlock, kFileBytes = 176;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index / 8) * kFileBytes;
    const int sub_block = index % 8;
    block->scale = ReadUint16(p);
    block->minimum = NegatedHalf(p + 2);
    ReadKScales(p + 4, sub_block, block);
    const uint8_t *fifth_bits = p + 16, *nibbles = p + 48 + sub_block / 2 * 32;
    for (int i = 0; i < kBlock; ++i) {
      const int low = nibbles[i] >> sub_block % 2 * 4 & 15, high = fifth_bits[i] >> sub_block & 1;
      block->codes[i] = static_cast<uint8_t>(low | high << 4);
    }
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q5_K_H_
