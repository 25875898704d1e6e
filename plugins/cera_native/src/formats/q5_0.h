// Q5_0: half scale, the fifth bits of 32 codes, then their low four bits; around 16.
#ifndef CERA_NATIVE_FORMATS_Q5_0_H_
#define CERA_NATIVE_FORMATS_Q5_0_H_

#include "formats/block.h"
#include "formats/layouts.h"

namespace cera {

struct Q5_0 {
  using Codes = FiveBits;
  using Scales = HalfScale;
  static constexpr int kZeroShift = 4;
  static constexpr int kFileBlock = 32, kFileBytes = 22;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index) * kFileBytes;
    block->scale = ReadUint16(p);
    ReadNibbles(p + 6, block->codes);
    AddFifthBits(ReadUint32(p + 2), block->codes);
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q5_0_H_
