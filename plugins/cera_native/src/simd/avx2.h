// Vectors of sixteen lanes in AVX2, FMA and F16C, as two registers of eight. What each function does: see plain.h.
#ifndef CERA_NATIVE_SIMD_AVX2_H_
#define CERA_NATIVE_SIMD_AVX2_H_

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "simd/common.h"

namespace cera {
namespace {

constexpr int kMaxTileColumns = 4;
constexpr int kTileQueries = 2;
constexpr int kTileVectors = 2;

struct Floats {
  __m256 low, high;
};
struct Ints {
  __m256i low, high;
};
struct Bytes {
  __m256i low, high;
};

CERA_INLINE __m128i Load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
CERA_INLINE __m128i Load64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
CERA_INLINE __m256i Load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

CERA_INLINE Floats Broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
CERA_INLINE Floats LoadFloats(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
CERA_INLINE void StoreFloats(float* p, Floats a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
CERA_INLINE Floats LoadHalfs(const uint16_t* p) {
  return {_mm256_cvtph_ps(Load128(p)), _mm256_cvtph_ps(Load128(p + 8))};
}
CERA_INLINE void StoreHalfs(uint16_t* p, Floats a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.low, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.high, kNearest));
}
CERA_INLINE __m256 WidenBfloats(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
CERA_INLINE Floats LoadBfloats(const uint16_t* p) { return {WidenBfloats(Load128(p)), WidenBfloats(Load128(p + 8))}; }
CERA_INLINE Floats ToFloats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
CERA_INLINE Floats LoadUint8s(const uint8_t* p) {
  return ToFloats({_mm256_cvtepu8_epi32(Load64(p)), _mm256_cvtepu8_epi32(Load64(p + 8))});
}
CERA_INLINE Floats LoadInt8s(const int8_t* p) {
  return ToFloats({_mm256_cvtepi8_epi32(Load64(p)), _mm256_cvtepi8_epi32(Load64(p + 8))});
}

CERA_INLINE Floats Add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
CERA_INLINE Floats Subtract(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
CERA_INLINE Floats Multiply(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
CERA_INLINE Floats Divide(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
CERA_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
CERA_INLINE Floats Max(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
CERA_INLINE Floats Abs(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

CERA_INLINE Ints BroadcastInt(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
CERA_INLINE void StoreInts(int32_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.high);
}
CERA_INLINE void StoreInt8s(int8_t* p, Ints a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.low, a.high), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
CERA_INLINE Ints AddInts(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
CERA_INLINE Ints MaxOfInts(Ints a, Ints b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
template <int kBits>
CERA_INLINE Ints ShiftLeft(Ints a) {
  return {_mm256_slli_epi32(a.low, kBits), _mm256_slli_epi32(a.high, kBits)};
}
CERA_INLINE Ints BitsOf(Floats a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
CERA_INLINE Floats FromBits(Ints a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
CERA_INLINE Ints RoundToInts(Floats a) {
  return AddInts(BitsOf(Add(a, Broadcast(12582912.0f))), BroadcastInt(-0x4b400000));
}

CERA_INLINE Bytes LoadBytes(const uint8_t* p) { return {Load256(p), Load256(p + 32)}; }
CERA_INLINE Bytes Or(Bytes a, Bytes b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }
template <int kShift, int kMask>
CERA_INLINE __m256i ShiftAndMask256(__m256i a) {
  if constexpr (kShift > 0) a = _mm256_srli_epi16(a, kShift);
  if constexpr (kShift < 0) a = _mm256_slli_epi16(a, -kShift);
  return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(kMask)));
}
template <int kShift, int kMask>
CERA_INLINE Bytes ShiftAndMask(Bytes a) {
  return {ShiftAndMask256<kShift, kMask>(a.low), ShiftAndMask256<kShift, kMask>(a.high)};
}
// vpmaddubsw adds two products in 16 bits and saturates, which codes of 8 bits could reach: those go in two halves.
template <bool kWide>
CERA_INLINE __m256i Dot256(__m256i sum, __m256i codes, __m256i x) {
  const __m256i one = _mm256_set1_epi16(1), sixteen = _mm256_set1_epi16(16);
  if constexpr (!kWide) return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), one));
  const __m256i low = _mm256_maddubs_epi16(ShiftAndMask256<0, 15>(codes), x);
  const __m256i high = _mm256_maddubs_epi16(ShiftAndMask256<4, 15>(codes), x);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(low, one));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(high, sixteen));
}
template <bool kWide>
CERA_INLINE Ints Dot(Ints sum, Bytes codes, const int8_t* x) {
  int32_t four_values;
  memcpy(&four_values, x, sizeof(four_values));
  const __m256i broadcast = _mm256_set1_epi32(four_values);
  return {Dot256<kWide>(sum.low, codes.low, broadcast), Dot256<kWide>(sum.high, codes.high, broadcast)};
}

CERA_INLINE float SumOfLanes(Floats a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
CERA_INLINE float MaxOfLanes(Floats a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
CERA_INLINE int32_t SumOfLanes(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
CERA_INLINE int32_t MaxOfLanes(Ints a) {
  const __m256i eight = _mm256_max_epi32(a.low, a.high);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_SIMD_AVX2_H_
