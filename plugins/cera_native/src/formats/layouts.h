// How a tile of sixteen rows lies in memory: as one stream of cache lines, read in the order in which they lie.
//
// A group of blocks is a header (numbers that hold for all of them, if there are any), then runs of one or two blocks:
// one cache line of scales, then codes. Order matters: with all scales behind all codes the same products took twice as
// long.
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

// Where the numbers of a block are. Every number is an array over the sixteen rows; `place` is the block's in its run.
//
// kHeaderBytes, kRuns and kRunBlocks are those of a group.
struct HalfScale {
  static constexpr int kHeaderBytes = 0, kRuns = 1, kRunBlocks = 2;

  static void Put(const Block& block, int row, int place, uint8_t*, uint8_t* scales) {
    memcpy(scales + 32 * place + 2 * row, &block.scale, 2);
  }
  static void Get(const uint8_t*, const uint8_t* scales, int row, int place, Block* block) {
    memcpy(&block->scale, scales + 32 * place + 2 * row, 2);
  }
};

struct HalfScaleAndMinimum {
  static constexpr int kHeaderBytes = 0, kRuns = 1, kRunBlocks = 1;

  static void Put(const Block& block, int row, int, uint8_t*, uint8_t* scales) {
    memcpy(scales + 2 * row, &block.scale, 2);
    memcpy(scales + 32 + 2 * row, &block.minimum, 2);
  }
  static void Get(const uint8_t*, const uint8_t* scales, int row, int, Block* block) {
    memcpy(&block->scale, scales + 2 * row, 2);
    memcpy(&block->minimum, scales + 32 + 2 * row, 2);
  }
};

// Half scales and half minima in the header; for each block fine scales and fine minima.
struct FineScaleAndMinimum {
  static constexpr int kHeaderBytes = 64, kRuns = 4, kRunBlocks = 2;

  static void Put(const Block& block, int row, int place, uint8_t* header, uint8_t* scales) {
    memcpy(header + 2 * row, &block.scale, 2);
    memcpy(header + 32 + 2 * row, &block.minimum, 2);
    scales[32 * place + row] = static_cast<uint8_t>(block.fine_scales[0]);
    scales[32 * place + 16 + row] = block.fine_minimum;
  }
  static void Get(const uint8_t* header, const uint8_t* scales, int row, int place, Block* block) {
    memcpy(&block->scale, header + 2 * row, 2);
    memcpy(&block->minimum, header + 32 + 2 * row, 2);
    block->fine_scales[0] = block->fine_scales[1] = static_cast<int8_t>(scales[32 * place + row]);
    block->fine_minimum = scales[32 * place + 16 + row];
  }
};

// Half scales in the header, of which half is free; for each block the fine scales of its first and of its second half.
struct FineHalfScales {
  static constexpr int kHeaderBytes = 64, kRuns = 4, kRunBlocks = 2;

  static void Put(const Block& block, int row, int place, uint8_t* header, uint8_t* scales) {
    memcpy(header + 2 * row, &block.scale, 2);
    for (int half = 0; half < 2; ++half) {
      scales[32 * place + 16 * half + row] = static_cast<uint8_t>(block.fine_scales[half]);
    }
  }
  static void Get(const uint8_t* header, const uint8_t* scales, int row, int place, Block* block) {
    memcpy(&block->scale, header + 2 * row, 2);
    for (int half = 0; half < 2; ++half) {
      block->fine_scales[half] = static_cast<int8_t>(scales[32 * place + 16 * half + row]);
    }
  }
};

// Where the codes and scales of a tile's blocks are.
template <class Codes, class Scales>
struct TileLayout {
  static constexpr int kLine = 64;
  static constexpr int kRunBlocks = Scales::kRunBlocks, kGroupBlocks = Scales::kRuns * kRunBlocks;
  static constexpr int kRunBytes = kLine + kRunBlocks * Codes::kBytes;
  static constexpr int kGroupBytes = Scales::kHeaderBytes + Scales::kRuns * kRunBytes;
  static_assert(kGroupBytes % kLine == 0, "a tile is a stream of whole cache lines");

  static size_t NumBytes(int num_blocks) {
    return static_cast<size_t>((num_blocks + kGroupBlocks - 1) / kGroupBlocks) * kGroupBytes;
  }
  static size_t Header(int block) { return static_cast<size_t>(block / kGroupBlocks) * kGroupBytes; }
  static size_t RunScales(int block) {
    return Header(block) + Scales::kHeaderBytes + block % kGroupBlocks / kRunBlocks * kRunBytes;
  }
  static int Place(int block) { return block % kRunBlocks; }
  static size_t BlockCodes(int block) { return RunScales(block) + kLine + Place(block) * Codes::kBytes; }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_LAYOUTS_H_
