// Q5_1: half scale and half minimum, the fifth bits of 32 codes, then their low four bits.
#ifndef CERA_NATIVE_FORMATS_Q5_1_H_
#define CERA_NATIVE_FORMATS_Q5_1_H_

#include "formats/block.h"
#include "formats/layouts.h"

namespace cera {

struct Q5_1 {
  using Codes = FiveBits;
  using Scales = HalfScaleAndMinimum;
  static constexpr int kZeroShift = kNoZeroPoint;
  static constexpr int kFileBlock = 32, kFileBytes = 24;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index) * kFileBytes;
    block->scale = ReadUint16(p);
    block->minimum = ReadUint16(p + 2);
    ReadNibbles(p + 8, block->codes);
    AddFifthBits(ReadUint32(p + 4), block->codes);
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q5_1_H_
