// Vectors of sixteen lanes in AVX-512 F, BW, DQ, VL and VNNI. What each function does is said in plain.h.
#ifndef CERA_NATIVE_SIMD_AVX512_H_
#define CERA_NATIVE_SIMD_AVX512_H_

#include <immintrin.h>
#include <stdint.h>

#include "simd/common.h"

namespace cera {
namespace {

// Eight columns need eight sums, eight registers of codes and a few more: they fit into 32 registers.
constexpr int kMaxTileColumns = 8;

// Six queries times four vectors of keys or values are 24 sums of 32 registers.
constexpr int kTileQueries = 6;
constexpr int kTileVectors = 4;

using Floats = __m512;
using Ints = __m512i;
struct Bytes {
  __m512i value;
};

CERA_INLINE Floats Broadcast(float x) { return _mm512_set1_ps(x); }
CERA_INLINE Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
CERA_INLINE void StoreFloats(float* p, Floats a) { _mm512_storeu_ps(p, a); }
CERA_INLINE Floats LoadHalfs(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
CERA_INLINE void StoreHalfs(uint16_t* p, Floats a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
CERA_INLINE Floats LoadBfloats(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
CERA_INLINE Floats LoadUint8s(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
CERA_INLINE Floats LoadInt8s(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

CERA_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
CERA_INLINE Floats Subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
CERA_INLINE Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
CERA_INLINE Floats Divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
CERA_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
CERA_INLINE Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
CERA_INLINE Floats Abs(Floats a) { return _mm512_abs_ps(a); }

CERA_INLINE Ints BroadcastInt(int32_t x) { return _mm512_set1_epi32(x); }
CERA_INLINE void StoreInts(int32_t* p, Ints a) { _mm512_storeu_si512(p, a); }
CERA_INLINE void StoreInt8s(int8_t* p, Ints a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}
CERA_INLINE Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
CERA_INLINE Ints MaxOfInts(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
template <int kBits>
CERA_INLINE Ints ShiftLeft(Ints a) {
  return _mm512_slli_epi32(a, kBits);
}
CERA_INLINE Floats ToFloats(Ints a) { return _mm512_cvtepi32_ps(a); }
CERA_INLINE Ints RoundToInts(Floats a) {
  const __m512i bits = _mm512_castps_si512(_mm512_add_ps(a, _mm512_set1_ps(12582912.0f)));
  return _mm512_sub_epi32(bits, _mm512_set1_epi32(0x4b400000));
}
CERA_INLINE Ints BitsOf(Floats a) { return _mm512_castps_si512(a); }
CERA_INLINE Floats FromBits(Ints a) { return _mm512_castsi512_ps(a); }

CERA_INLINE Bytes LoadBytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
CERA_INLINE Bytes Or(Bytes a, Bytes b) { return {_mm512_or_si512(a.value, b.value)}; }
template <int kShift, int kMask>
CERA_INLINE Bytes ShiftAndMask(Bytes a) {
  __m512i shifted = a.value;
  if constexpr (kShift > 0) shifted = _mm512_srli_epi16(shifted, kShift);
  if constexpr (kShift < 0) shifted = _mm512_slli_epi16(shifted, -kShift);
  return {_mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>(kMask)))};
}
// Compilers do not fold the broadcast into the instruction by themselves, and as one of its own it costs as much again.
template <bool kWide>
CERA_INLINE Ints Dot(Ints sum, Bytes codes, const int8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes.value), "m"(*reinterpret_cast<const int32_t*>(x)));
  return sum;
}

CERA_INLINE float SumOfLanes(Floats a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
CERA_INLINE float MaxOfLanes(Floats a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
CERA_INLINE int32_t SumOfLanes(Ints a) { return _mm512_reduce_add_epi32(a); }
CERA_INLINE int32_t MaxOfLanes(Ints a) { return _mm512_reduce_max_epi32(a); }

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_SIMD_AVX512_H_
