// The twelve bytes of Q4_K and Q5_K that hold eight scales and eight minima of 6 bits each: for the first four blocks
// the low bits of bytes 0-3 (scales) and 4-7 (minima); for the last four the nibbles of bytes 8-11 and the high bits of
// 0-7.
#ifndef CERA_NATIVE_FORMATS_K_SCALES_H_
#define CERA_NATIVE_FORMATS_K_SCALES_H_

#include "formats/block.h"

namespace cera {

inline void ReadKScales(const uint8_t* packed, int sub_block, Block* block) {
  const int i = sub_block & 3;
  if (sub_block < 4) {
    block->fine_scales[0] = static_cast<int8_t>(packed[i] & 63);
    block->fine_minimum = packed[i + 4] & 63;
  } else {
    block->fine_scales[0] = static_cast<int8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
    block->fine_minimum = static_cast<uint8_t>(packed[i + 8] >> 4 | (packed[i + 4] >> 6) << 4);
  }
}

// What Q4_K and Q5_K subtract is kept as a minimum that is added: the half with its sign turned.
inline uint16_t NegatedHalf(const uint8_t* p) { return ReadUint16(p) ^ 0x8000; }

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_K_SCALES_H_
