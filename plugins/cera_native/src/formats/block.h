// One block of 32 weights of one row, taken apart: what a weight format reads and a layout stores.
#ifndef CERA_NATIVE_FORMATS_BLOCK_H_
#define CERA_NATIVE_FORMATS_BLOCK_H_

#include <stdint.h>
#include <string.h>

namespace cera {

constexpr int kBlock = 32;        // weights that share a scale, and values that share one in an activation
constexpr int kTileRows = 16;     // rows of weights that lie interleaved, one in each lane
constexpr int kSuperBlock = 256;  // weights of one block of the "K" formats

// weight = scale * fine_scale * (code - zero point) + minimum * fine_minimum, where scale and minimum are half
// precision and a format without fine ones has 1. Formats with two fine scales change at the sixteenth weight.
struct Block {
  uint8_t codes[kBlock];
  uint16_t scale = 0;
  uint16_t minimum = 0;
  int8_t fine_scales[2] = {1, 1};
  uint8_t fine_minimum = 1;
};

inline uint16_t ReadUint16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

inline uint32_t ReadUint32(const uint8_t* p) {
  return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}

// Sixteen bytes of nibbles: the low ones are the weights 0 to 15, the high ones 16 to 31.
inline void ReadNibbles(const uint8_t* nibbles, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = nibbles[i] & 15;
    codes[i + 16] = nibbles[i] >> 4;
  }
}

// Adds bit i of `bits` to code i, as its fifth.
inline void AddFifthBits(uint32_t bits, uint8_t* codes) {
  for (int i = 0; i < kBlock; ++i) codes[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_BLOCK_H_
