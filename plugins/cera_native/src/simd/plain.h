// Vectors of sixteen lanes in plain C++: the definition every other instruction set must match bit for bit.
//
// An instruction set is one header like this one, with the same types and functions. The kernels include exactly one of
// them, so everything here has internal linkage.
#ifndef CERA_NATIVE_SIMD_PLAIN_H_
#define CERA_NATIVE_SIMD_PLAIN_H_

#include <stdint.h>
#include <string.h>

#include "half.h"
#include "simd/common.h"

namespace cera {
namespace {

constexpr int kMaxTileColumns = 1;
constexpr int kTileQueries = 2;
constexpr int kTileVectors = 2;

struct Floats {
  float lane[16];
};
struct Ints {
  int32_t lane[16];
};
struct Bytes {
  uint8_t lane[64];
};

template <class Result, class Function>
CERA_INLINE Result ForEachLane(Function function) {
  Result result;
  for (int i = 0; i < 16; ++i) result.lane[i] = function(i);
  return result;
}

CERA_INLINE Floats Broadcast(float x) {
  return ForEachLane<Floats>([&](int) { return x; });
}
CERA_INLINE Floats LoadFloats(const float* p) {
  return ForEachLane<Floats>([&](int i) { return p[i]; });
}
CERA_INLINE void StoreFloats(float* p, Floats a) { memcpy(p, a.lane, sizeof(a.lane)); }
CERA_INLINE Floats LoadHalfs(const uint16_t* p) {
  return ForEachLane<Floats>([&](int i) { return FloatFromHalf(p[i]); });
}
CERA_INLINE void StoreHalfs(uint16_t* p, Floats a) {
  for (int i = 0; i < 16; ++i) p[i] = HalfFromFloat(a.lane[i]);
}
CERA_INLINE Floats LoadBfloats(const uint16_t* p) {
  return ForEachLane<Floats>([&](int i) { return FloatFromBfloat(p[i]); });
}
CERA_INLINE Floats LoadUint8s(const uint8_t* p) {
  return ForEachLane<Floats>([&](int i) { return static_cast<float>(p[i]); });
}
CERA_INLINE Floats LoadInt8s(const int8_t* p) {
  return ForEachLane<Floats>([&](int i) { return static_cast<float>(p[i]); });
}

CERA_INLINE Floats Add(Floats a, Floats b) {
  return ForEachLane<Floats>([&](int i) { return a.lane[i] + b.lane[i]; });
}
CERA_INLINE Floats Subtract(Floats a, Floats b) {
  return ForEachLane<Floats>([&](int i) { return a.lane[i] - b.lane[i]; });
}
CERA_INLINE Floats Multiply(Floats a, Floats b) {
  return ForEachLane<Floats>([&](int i) { return a.lane[i] * b.lane[i]; });
}
CERA_INLINE Floats Divide(Floats a, Floats b) {
  return ForEachLane<Floats>([&](int i) { return a.lane[i] / b.lane[i]; });
}
CERA_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) {
  return ForEachLane<Floats>([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
// The larger lane; the second where they do not compare (NaN).
CERA_INLINE Floats Max(Floats a, Floats b) {
  return ForEachLane<Floats>([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
CERA_INLINE Floats Abs(Floats a) {
  return ForEachLane<Floats>([&](int i) { return __builtin_fabsf(a.lane[i]); });
}

CERA_INLINE Ints BroadcastInt(int32_t x) {
  return ForEachLane<Ints>([&](int) { return x; });
}
CERA_INLINE void StoreInts(int32_t* p, Ints a) { memcpy(p, a.lane, sizeof(a.lane)); }
CERA_INLINE void StoreInt8s(int8_t* p, Ints a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.lane[i]);
}
// Wraps around, which it does only where a NaN went in.
CERA_INLINE Ints AddInts(Ints a, Ints b) {
  return ForEachLane<Ints>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) + static_cast<uint32_t>(b.lane[i])); });
}
CERA_INLINE Ints MaxOfInts(Ints a, Ints b) {
  return ForEachLane<Ints>([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
template <int kBits>
CERA_INLINE Ints ShiftLeft(Ints a) {
  return ForEachLane<Ints>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) << kBits); });
}
CERA_INLINE Floats ToFloats(Ints a) {
  return ForEachLane<Floats>([&](int i) { return static_cast<float>(a.lane[i]); });
}
// Rounds half to even; |a| < 2^22, where adding 1.5 * 2^23 leaves the integer in the low bits of the mantissa.
CERA_INLINE Ints RoundToInts(Floats a) {
  return ForEachLane<Ints>(
      [&](int i) { return static_cast<int32_t>(__builtin_bit_cast(uint32_t, a.lane[i] + 12582912.0f) - 0x4b400000u); });
}
CERA_INLINE Ints BitsOf(Floats a) { return __builtin_bit_cast(Ints, a); }
CERA_INLINE Floats FromBits(Ints a) { return __builtin_bit_cast(Floats, a); }

CERA_INLINE Bytes LoadBytes(const uint8_t* p) {
  Bytes result;
  memcpy(result.lane, p, sizeof(result.lane));
  return result;
}
CERA_INLINE Bytes Or(Bytes a, Bytes b) {
  for (int i = 0; i < 64; ++i) a.lane[i] |= b.lane[i];
  return a;
}
// Shifts each byte to the right, or to the left where kShift is negative, and keeps the bits of kMask.
template <int kShift, int kMask>
CERA_INLINE Bytes ShiftAndMask(Bytes a) {
  constexpr int kRight = kShift > 0 ? kShift : 0, kLeft = kShift < 0 ? -kShift : 0;
  for (int i = 0; i < 64; ++i) a.lane[i] = static_cast<uint8_t>((a.lane[i] >> kRight << kLeft) & kMask);
  return a;
}
// Adds to each lane the products of its four codes with the four values at `x`. kWide: codes use all 8 bits.
template <bool kWide>
CERA_INLINE Ints Dot(Ints sum, Bytes codes, const int8_t* x) {
  for (int i = 0; i < 64; ++i) sum.lane[i / 4] += codes.lane[i] * x[i % 4];
  return sum;
}

// Sum and maximum over the lanes, always in the same tree: one half onto the other until one lane is left.
template <class Lane, class Function>
CERA_INLINE Lane ReduceLanes(const Lane (&all)[16], Function join) {
  Lane lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = all[i];
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = join(lane[i], lane[i + width]);
  }
  return lane[0];
}
CERA_INLINE float SumOfLanes(Floats a) {
  return ReduceLanes(a.lane, [](float x, float y) { return x + y; });
}
CERA_INLINE float MaxOfLanes(Floats a) {
  return ReduceLanes(a.lane, [](float x, float y) { return x > y ? x : y; });
}
CERA_INLINE int32_t SumOfLanes(Ints a) {
  return ReduceLanes(a.lane, [](int32_t x, int32_t y) { return x + y; });
}
CERA_INLINE int32_t MaxOfLanes(Ints a) {
  return ReduceLanes(a.lane, [](int32_t x, int32_t y) { return x > y ? x : y; });
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_SIMD_PLAIN_H_
