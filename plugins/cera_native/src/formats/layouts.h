// How a tile of sixteen rows lies in memory: first the codes of all its blocks, then their scales.
//
// A tile's codes of one block of 32 are eight registers of 64 bytes; register i holds in lane r (four bytes) the
// weights 4i to 4i + 3 of row r. Layouts differ in how they pack these registers. Kernels unpack them in matmul_inl.h.
#ifndef CERA_NATIVE_FORMATS_LAYOUTS_H_
#define CERA_NATIVE_FORMATS_LAYOUTS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formats/block.h"

namespace cera {

constexpr int kNoZeroPoint = -1;  // else the zero point is 2^kZeroShift

inline uint32_t LoadWord(const uint8_t* p) {
  uint32_t word;
  memcpy(&word, p, sizeof(word));
  return word;
}
inline void StoreWord(uint8_t* p, uint32_t word) { memcpy(p, &word, sizeof(word)); }

// Register i of the nibbles holds register 2i of the codes in its low halves and 2i + 1 in its high ones.
struct FourBits {
  static constexpr bool kWide = false;
  static constexpr int kBytes = 256;

  static void Put(const uint8_t* codes, int row, uint8_t* packed) {
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = LoadWord(codes + 8 * i) & 0x0f0f0f0fu, high = LoadWord(codes + 8 * i + 4) & 0x0f0f0f0fu;
      StoreWord(packed + 64 * i + 4 * row, low | high << 4);
    }
  }
  static int Get(const uint8_t* packed, int row, int k) {
    const uint8_t byte = packed[k / 8 * 64 + 4 * row + k % 4];
    return k / 4 % 2 == 0 ? byte & 15 : byte >> 4;
  }
};

// After the nibbles one register of high bits: bit i belongs to register i of the codes.
struct FiveBits {
  static constexpr bool kWide = false;
  static constexpr int kBytes = 320;

  static void Put(const uint8_t* codes, int row, uint8_t* packed) {
    FourBits::Put(codes, row, packed);
    uint32_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (LoadWord(codes + 4 * i) >> 4 & 0x01010101u) << i;
    StoreWord(packed + 256 + 4 * row, bits);
  }
  static int Get(const uint8_t* packed, int row, int k) {
    return FourBits::Get(packed, row, k) | (packed[256 + 4 * row + k % 4] >> k / 4 & 1) << 4;
  }
};

// After the nibbles two registers of high bits, two for each of four registers of the codes.
struct SixBits {
  static constexpr bool kWide = false;
  static constexpr int kBytes = 384;

  static void Put(const uint8_t* codes, int row, uint8_t* packed) {
    FourBits::Put(codes, row, packed);
    for (int half = 0; half < 2; ++half) {
      uint32_t bits = 0;
      for (int i = 0; i < 4; ++i) bits |= (LoadWord(codes + 16 * half + 4 * i) >> 4 & 0x03030303u) << 2 * i;
      StoreWord(packed + 256 + 64 * half + 4 * row, bits);
    }
  }
  static int Get(const uint8_t* packed, int row, int k) {
    const uint8_t bits = packed[256 + k / 16 * 64 + 4 * row + k % 4];
    return FourBits::Get(packed, row, k) | (bits >> k / 4 % 4 * 2 & 3) << 4;
  }
};

struct EightBits {
  static constexpr bool kWide = true;
  static constexpr int kBytes = 512;

  static void Put(const uint8_t* codes, int row, uint8_t* packed) {
    for (int i = 0; i < 8; ++i) StoreWord(packed + 64 * i + 4 * row, LoadWord(codes + 4 * i));
  }
  static int Get(const uint8_t* packed, int row, int k) { return packed[k / 4 * 64 + 4 * row + k % 4]; }
};

// Scales lie in groups of kBlocks blocks, kBytes each, every number as an array over the sixteen rows.
struct HalfScale {
  static constexpr int kBlocks = 1, kBytes = 32;

  static void Put(const Block& block, int row, int, uint8_t* group) { memcpy(group + 2 * row, &block.scale, 2); }
  static void Get(const uint8_t* group, int row, int, Block* block) { memcpy(&block->scale, group + 2 * row, 2); }
};

struct HalfScaleAndMinimum {
  static constexpr int kBlocks = 1, kBytes = 64;

  static void Put(const Block& block, int row, int, uint8_t* group) {
    memcpy(group + 2 * row, &block.scale, 2);
    memcpy(group + 32 + 2 * row, &block.minimum, 2);
  }
  static void Get(const uint8_t* group, int row, int, Block* block) {
    memcpy(&block->scale, group + 2 * row, 2);
    memcpy(&block->minimum, group + 32 + 2 * row, 2);
  }
};

// Half scales, half minima, then for each block fine scales and fine minima.
struct FineScaleAndMinimum {
  static constexpr int kBlocks = 8, kBytes = 64 + 8 * 32;

  static void Put(const Block& block, int row, int index, uint8_t* group) {
    HalfScaleAndMinimum::Put(block, row, 0, group);
    group[64 + 32 * index + row] = static_cast<uint8_t>(block.fine_scales[0]);
    group[80 + 32 * index + row] = block.fine_minimum;
  }
  static void Get(const uint8_t* group, int row, int index, Block* block) {
    HalfScaleAndMinimum::Get(group, row, 0, block);
    block->fine_scales[0] = block->fine_scales[1] = static_cast<int8_t>(group[64 + 32 * index + row]);
    block->fine_minimum = group[80 + 32 * index + row];
  }
};

// Half scales, then for each block the fine scales of its first and of its second half.
struct FineHalfScales {
  static constexpr int kBlocks = 8, kBytes = 32 + 8 * 32;

  static void Put(const Block& block, int row, int index, uint8_t* group) {
    HalfScale::Put(block, row, 0, group);
    for (int half = 0; half < 2; ++half) {
      group[32 + 32 * index + 16 * half + row] = static_cast<uint8_t>(block.fine_scales[half]);
    }
  }
  static void Get(const uint8_t* group, int row, int index, Block* block) {
    HalfScale::Get(group, row, 0, block);
    for (int half = 0; half < 2; ++half) {
      block->fine_scales[half] = static_cast<int8_t>(group[32 + 32 * index + 16 * half + row]);
    }
  }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_LAYOUTS_H_
