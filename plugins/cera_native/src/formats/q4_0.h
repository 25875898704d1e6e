// Q4_0: half scale, then 32 codes of 4 bits around 8.
#ifndef CERA_NATIVE_FORMATS_Q4_0_H_
#define CERA_NATIVE_FORMATS_Q4_0_H_

#include "formats/block.h"
#include "formats/layouts.h"

namespace cera {

struct Q4_0 {
  using Codes = FourBits;
  using Scales = HalfScale;
  static constexpr int kZeroShift = 3;
  static constexpr int kFileBlock = 32, kFileBytes = 18;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index) * kFileBytes;
    block->scale = ReadUint16(p);
    ReadNibbles(p + 2, block->codes);
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q4_0_H_
