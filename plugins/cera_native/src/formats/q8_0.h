// Q8_0: half scale, then 32 signed codes of 8 bits, kept here as unsigned ones around 128.
#ifndef CERA_NATIVE_FORMATS_Q8_0_H_
#define CERA_NATIVE_FORMATS_Q8_0_H_

#include "formats/block.h"
#include "formats/layouts.h"

namespace cera {

struct Q8_0 {
  using Codes = EightBits;
  using Scales = HalfScale;
  static constexpr int kZeroShift = 7;
  static constexpr int kFileBlock = 32, kFileBytes = 34;

  static void Read(const uint8_t* row, int index, Block* block) {
    const uint8_t* p = row + static_cast<size_t>(index) * kFileBytes;
    block->scale = ReadUint16(p);
    for (int i = 0; i < kBlock; ++i) block->codes[i] = p[2 + i] ^ 128;
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_Q8_0_H_
