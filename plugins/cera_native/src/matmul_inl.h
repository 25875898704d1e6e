// Products of packed weights and columns of activations. Included after one of simd/*.h.
//
// A lane is a row of the weights, so nothing is ever summed across lanes, and a block is unpacked once for all columns.
#ifndef CERA_NATIVE_MATMUL_INL_H_
#define CERA_NATIVE_MATMUL_INL_H_

#include "kernels.h"

namespace cera {
namespace {

// Far enough for the weights' way from memory to overlap with the arithmetic; without it the two times add up. The
// first cache has few places for lines on their way, too few to keep memory busy: they come to the second one first.
constexpr int kBlocksToSecondCache = 32;
constexpr int kBlocksToFirstCache = 8;

// Bytes of a tile that `num_blocks` blocks take, whole runs.
template <class Layout>
constexpr int RunBytes(int num_blocks) {
  return num_blocks / Layout::kRunBlocks * Layout::kRunBytes;
}

template <class Layout, int kBytes>
CERA_INLINE void Prefetch(const uint8_t* p) {
#pragma GCC unroll 8
  for (int i = 0; i < kBytes; i += 64) {
    __builtin_prefetch(p + RunBytes<Layout>(kBlocksToSecondCache) + i, 0, 2);
    __builtin_prefetch(p + RunBytes<Layout>(kBlocksToFirstCache) + i, 0, 3);
  }
}

// The codes of one block as eight registers: register i has the weights 4i to 4i + 3 of each row.
CERA_INLINE void Unpack(FourBits, const uint8_t* packed, Bytes (&codes)[8]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Bytes nibbles = LoadBytes(packed + 64 * i);
    codes[2 * i] = ShiftAndMask<0, 15>(nibbles);
    codes[2 * i + 1] = ShiftAndMask<4, 15>(nibbles);
  }
}
CERA_INLINE void Unpack(FiveBits, const uint8_t* packed, Bytes (&codes)[8]) {
  Unpack(FourBits(), packed, codes);
  const Bytes bits = LoadBytes(packed + 256);
  codes[0] = Or(codes[0], ShiftAndMask<-4, 16>(bits));
  codes[1] = Or(codes[1], ShiftAndMask<-3, 16>(bits));
  codes[2] = Or(codes[2], ShiftAndMask<-2, 16>(bits));
  codes[3] = Or(codes[3], ShiftAndMask<-1, 16>(bits));
  codes[4] = Or(codes[4], ShiftAndMask<0, 16>(bits));
  codes[5] = Or(codes[5], ShiftAndMask<1, 16>(bits));
  codes[6] = Or(codes[6], ShiftAndMask<2, 16>(bits));
  codes[7] = Or(codes[7], ShiftAndMask<3, 16>(bits));
}
CERA_INLINE void Unpack(SixBits, const uint8_t* packed, Bytes (&codes)[8]) {
  Unpack(FourBits(), packed, codes);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const Bytes bits = LoadBytes(packed + 256 + 64 * half);
    codes[4 * half] = Or(codes[4 * half], ShiftAndMask<-4, 48>(bits));
    codes[4 * half + 1] = Or(codes[4 * half + 1], ShiftAndMask<-2, 48>(bits));
    codes[4 * half + 2] = Or(codes[4 * half + 2], ShiftAndMask<0, 48>(bits));
    codes[4 * half + 3] = Or(codes[4 * half + 3], ShiftAndMask<2, 48>(bits));
  }
}
CERA_INLINE void Unpack(EightBits, const uint8_t* packed, Bytes (&codes)[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) codes[i] = LoadBytes(packed + 64 * i);
}

// Minus the zero point times the sum of the activation's codes: where a sum of products starts.
template <int kZeroShift>
CERA_INLINE Ints ZeroPointTerm(int32_t negated_sum) {
  if constexpr (kZeroShift == kNoZeroPoint)
    return BroadcastInt(0);
  else
    return ShiftLeft<kZeroShift>(BroadcastInt(negated_sum));
}

template <bool kWide>
CERA_INLINE Ints DotHalf(Ints sum, const Bytes* codes, const int8_t* x) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) sum = Dot<kWide>(sum, codes[i], x + 4 * i);
  return sum;
}

// The sum over a block of 32 of (code - zero point) * activation code: integers, so exact in any order.
template <class Format>
CERA_INLINE Floats DotBlock(const Bytes* codes, const int8_t* x, const BlockSums& sums) {
  constexpr bool kWide = Format::Codes::kWide;
  const Ints first = DotHalf<kWide>(ZeroPointTerm<Format::kZeroShift>(sums.negated_sum), codes, x);
  return ToFloats(AddInts(first, DotHalf<kWide>(BroadcastInt(0), codes + 4, x + 16)));
}

CERA_INLINE Floats HalfRow(const uint8_t* p) { return LoadHalfs(reinterpret_cast<const uint16_t*>(p)); }

// The scales of one block of the weights, and how the block's sum joins a column's: the format's formula.
template <class Scales>
struct TileScales;

template <>
struct TileScales<HalfScale> {
  Floats scale;

  CERA_INLINE TileScales(const uint8_t*, const uint8_t* scales, int place) : scale(HalfRow(scales + 32 * place)) {}

  template <class Format>
  CERA_INLINE Floats Accumulate(const Bytes* codes, const int8_t* x, const BlockSums& sums, Floats total) const {
    return MultiplyAdd(DotBlock<Format>(codes, x, sums), Multiply(scale, Broadcast(sums.scale)), total);
  }
};

// Both kinds of scales with minima: the minimum meets the sum of the activations of the block.
struct ScaleAndMinimum {
  Floats scale, minimum;

  template <class Format>
  CERA_INLINE Floats Accumulate(const Bytes* codes, const int8_t* x, const BlockSums& sums, Floats total) const {
    total = MultiplyAdd(DotBlock<Format>(codes, x, sums), Multiply(scale, Broadcast(sums.scale)), total);
    return MultiplyAdd(minimum, Broadcast(sums.scaled_sum), total);
  }
};

template <>
struct TileScales<HalfScaleAndMinimum> : ScaleAndMinimum {
  CERA_INLINE TileScales(const uint8_t*, const uint8_t* scales, int)
      : ScaleAndMinimum{HalfRow(scales), HalfRow(scales + 32)} {}
};

template <>
struct TileScales<FineScaleAndMinimum> : ScaleAndMinimum {
  CERA_INLINE TileScales(const uint8_t* header, const uint8_t* scales, int place)
      : ScaleAndMinimum{Multiply(HalfRow(header), LoadUint8s(scales + 32 * place)),
                        Multiply(HalfRow(header + 32), LoadUint8s(scales + 32 * place + 16))} {}
};

template <>
struct TileScales<FineHalfScales> {
  Floats first, second;

  CERA_INLINE TileScales(const uint8_t* header, const uint8_t* scales, int place) {
    const auto* fine = reinterpret_cast<const int8_t*>(scales + 32 * place);
    first = Multiply(HalfRow(header), LoadInt8s(fine));
    second = Multiply(HalfRow(header), LoadInt8s(fine + 16));
  }

  template <class Format>
  CERA_INLINE Floats Accumulate(const Bytes* codes, const int8_t* x, const BlockSums& sums, Floats total) const {
    constexpr int kZeroShift = Format::kZeroShift;
    const Ints low = DotHalf<false>(ZeroPointTerm<kZeroShift>(sums.negated_half_sums[0]), codes, x);
    const Ints high = DotHalf<false>(ZeroPointTerm<kZeroShift>(sums.negated_half_sums[1]), codes + 4, x + 16);
    const Floats scaled = MultiplyAdd(ToFloats(high), second, Multiply(ToFloats(low), first));
    return MultiplyAdd(scaled, Broadcast(sums.scale), total);
  }
};

// Where the results of one tile go.
struct TileOutput {
  const float* bias;  // of the tile's rows, or null
  float* y;
  size_t stride;
  int num_rows;
  bool add;

  CERA_INLINE void Store(int column, Floats total) const {
    float* p = y + column * stride;
    if (num_rows < kTileRows) {
      StorePart(p, total);
      return;
    }
    if (bias != nullptr) total = Add(total, LoadFloats(bias));
    if (add) total = Add(LoadFloats(p), total);
    StoreFloats(p, total);
  }

  void StorePart(float* p, Floats total) const {
    float rows[kTileRows];
    StoreFloats(rows, total);
    for (int i = 0; i < num_rows; ++i) {
      const float sum = bias == nullptr ? rows[i] : rows[i] + bias[i];
      p[i] = add ? p[i] + sum : sum;
    }
  }
};

// One tile of sixteen rows times kColumns columns; `stride` columns lie side by side in each block.
template <class Format, int kColumns>
__attribute__((noinline)) void MultiplyTile(const uint8_t* tile, int num_blocks, const int8_t* x, const BlockSums* sums,
                                            int stride, const TileOutput& output) {
  using Codes = typename Format::Codes;
  using Scales = typename Format::Scales;
  using Layout = TileLayout<Codes, Scales>;
  Floats totals[kColumns];
#pragma GCC unroll 8
  for (int j = 0; j < kColumns; ++j) totals[j] = Broadcast(0.0f);
  for (int block = 0; block < num_blocks; ++block) {
    const uint8_t* packed = tile + Layout::BlockCodes(block);
    const uint8_t* scales = tile + Layout::RunScales(block);
    Prefetch<Layout, Layout::kLine>(scales);
    Prefetch<Layout, Codes::kBytes>(packed);
    Bytes codes[8];
    Unpack(Codes(), packed, codes);
    const TileScales<Scales> tile_scales(tile + Layout::Header(block), scales, Layout::Place(block));
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      totals[j] = tile_scales.template Accumulate<Format>(codes, x + j * kBlock, sums[j], totals[j]);
    }
    x += stride * kBlock;
    sums += stride;
  }
#pragma GCC unroll 8
  for (int j = 0; j < kColumns; ++j) output.Store(j, totals[j]);
}

template <class Format, int kColumns = kMaxTileColumns>
CERA_INLINE void MultiplyColumns(int num_columns, const uint8_t* tile, int num_blocks, const int8_t* x,
                                 const BlockSums* sums, int stride, const TileOutput& output) {
  if (num_columns == kColumns) return MultiplyTile<Format, kColumns>(tile, num_blocks, x, sums, stride, output);
  if constexpr (kColumns > 1) {
    MultiplyColumns<Format, kColumns - 1>(num_columns, tile, num_blocks, x, sums, stride, output);
  }
}

CERA_INLINE TileOutput OutputOf(const MultiplyArgs& args, int tile, int column) {
  const int first_row = tile * kTileRows, rows_left = args.num_rows - first_row;
  return {args.bias == nullptr ? nullptr : args.bias + first_row,
          args.y + column * args.y_stride + (tile - args.first_tile) * kTileRows, args.y_stride,
          rows_left < kTileRows ? rows_left : kTileRows, args.add};
}

template <class Format>
void MultiplyCodes(const MultiplyArgs& args) {
  const QuantisedColumns& x = args.quantised;
  for (int tile = args.first_tile; tile < args.first_tile + args.num_tiles; ++tile) {
    for (int column = 0; column < x.num_columns; column += kMaxTileColumns) {
      const int group = column / kGroupColumns, stride = x.ColumnsInGroup(group);
      const size_t index = x.BlockIndex(group, 0, column % kGroupColumns);
      const int left = stride - column % kGroupColumns;
      MultiplyColumns<Format>(left < kMaxTileColumns ? left : kMaxTileColumns, args.tiles + tile * args.tile_bytes,
                              x.num_blocks, x.codes + index * kBlock, x.sums + index, stride,
                              OutputOf(args, tile, column));
    }
  }
}

CERA_INLINE Floats LoadWeights(F32, const float* p) { return LoadFloats(p); }
CERA_INLINE Floats LoadWeights(F16, const uint16_t* p) { return LoadHalfs(p); }
CERA_INLINE Floats LoadWeights(Bf16, const uint16_t* p) { return LoadBfloats(p); }

template <class Format, int kColumns>
__attribute__((noinline)) void MultiplyFloatTile(const typename Format::Stored* weights, int num_inner, const float* x,
                                                 size_t stride, const TileOutput& output) {
  Floats totals[kColumns];
#pragma GCC unroll 4
  for (int j = 0; j < kColumns; ++j) totals[j] = Broadcast(0.0f);
  for (int k = 0; k < num_inner; ++k) {
    const Floats weight = LoadWeights(Format(), weights + static_cast<size_t>(k) * kTileRows);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) totals[j] = MultiplyAdd(weight, Broadcast(x[j * stride + k]), totals[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < kColumns; ++j) output.Store(j, totals[j]);
}

template <class Format>
void MultiplyFloats(const MultiplyArgs& args) {
  for (int tile = args.first_tile; tile < args.first_tile + args.num_tiles; ++tile) {
    const auto* weights = reinterpret_cast<const typename Format::Stored*>(args.tiles + tile * args.tile_bytes);
    int column = 0;
    for (; column + 4 <= args.num_columns; column += 4) {
      MultiplyFloatTile<Format, 4>(weights, args.num_inner, args.values + column * args.values_stride,
                                   args.values_stride, OutputOf(args, tile, column));
    }
    for (; column < args.num_columns; ++column) {
      MultiplyFloatTile<Format, 1>(weights, args.num_inner, args.values + column * args.values_stride,
                                   args.values_stride, OutputOf(args, tile, column));
    }
  }
}

template <class Format>
constexpr MultiplyFunction MultiplyOf() {
  if constexpr (IsFloatFormat<Format>::kValue)
    return MultiplyFloats<Format>;
  else
    return MultiplyCodes<Format>;
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_MATMUL_INL_H_
