// Vectors of sixteen lanes in NEON with dot products, as four registers of four. What each function does: see plain.h.
#ifndef CERA_NATIVE_SIMD_NEON_H_
#define CERA_NATIVE_SIMD_NEON_H_

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "simd/common.h"

namespace cera {
namespace {

constexpr int kMaxTileColumns = 4;
constexpr int kTileQueries = 2;
constexpr int kTileVectors = 2;

struct Floats {
  float32x4_t part[4];
};
struct Ints {
  int32x4_t part[4];
};
struct Bytes {
  uint8x16_t part[4];
};

template <class Result, class Function>
CERA_INLINE Result ForEachPart(Function function) {
  return {{function(0), function(1), function(2), function(3)}};
}

CERA_INLINE Floats Broadcast(float x) {
  return ForEachPart<Floats>([&](int) { return vdupq_n_f32(x); });
}
CERA_INLINE Floats LoadFloats(const float* p) {
  return ForEachPart<Floats>([&](int i) { return vld1q_f32(p + 4 * i); });
}
CERA_INLINE void StoreFloats(float* p, Floats a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.part[i]);
}
CERA_INLINE Floats LoadHalfs(const uint16_t* p) {
  return ForEachPart<Floats>([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
CERA_INLINE void StoreHalfs(uint16_t* p, Floats a) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.part[i])));
}
CERA_INLINE Floats LoadBfloats(const uint16_t* p) {
  return ForEachPart<Floats>([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
CERA_INLINE Floats ToFloats(Ints a) {
  return ForEachPart<Floats>([&](int i) { return vcvtq_f32_s32(a.part[i]); });
}
CERA_INLINE Floats LoadInt8s(const int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return ToFloats({{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
                    vmovl_s16(vget_high_s16(high))}});
}
CERA_INLINE int32x4_t WidenUnsigned(uint16x4_t words) { return vreinterpretq_s32_u32(vmovl_u16(words)); }
CERA_INLINE Floats LoadUint8s(const uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
  return ToFloats({{WidenUnsigned(vget_low_u16(low)), WidenUnsigned(vget_high_u16(low)),
                    WidenUnsigned(vget_low_u16(high)), WidenUnsigned(vget_high_u16(high))}});
}

CERA_INLINE Floats Add(Floats a, Floats b) {
  return ForEachPart<Floats>([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
}
CERA_INLINE Floats Subtract(Floats a, Floats b) {
  return ForEachPart<Floats>([&](int i) { return vsubq_f32(a.part[i], b.part[i]); });
}
CERA_INLINE Floats Multiply(Floats a, Floats b) {
  return ForEachPart<Floats>([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
}
CERA_INLINE Floats Divide(Floats a, Floats b) {
  return ForEachPart<Floats>([&](int i) { return vdivq_f32(a.part[i], b.part[i]); });
}
CERA_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) {
  return ForEachPart<Floats>([&](int i) { return vfmaq_f32(c.part[i], a.part[i], b.part[i]); });
}
CERA_INLINE Floats Max(Floats a, Floats b) {
  return ForEachPart<Floats>([&](int i) { return vbslq_f32(vcgtq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]); });
}
CERA_INLINE Floats Abs(Floats a) {
  return ForEachPart<Floats>([&](int i) { return vabsq_f32(a.part[i]); });
}

CERA_INLINE Ints BroadcastInt(int32_t x) {
  return ForEachPart<Ints>([&](int) { return vdupq_n_s32(x); });
}
CERA_INLINE void StoreInts(int32_t* p, Ints a) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, a.part[i]);
}
CERA_INLINE void StoreInt8s(int8_t* p, Ints a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.part[0]), vmovn_s32(a.part[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(a.part[2]), vmovn_s32(a.part[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
CERA_INLINE Ints AddInts(Ints a, Ints b) {
  return ForEachPart<Ints>([&](int i) { return vaddq_s32(a.part[i], b.part[i]); });
}
CERA_INLINE Ints MaxOfInts(Ints a, Ints b) {
  return ForEachPart<Ints>([&](int i) { return vmaxq_s32(a.part[i], b.part[i]); });
}
template <int kBits>
CERA_INLINE Ints ShiftLeft(Ints a) {
  return ForEachPart<Ints>([&](int i) { return vshlq_n_s32(a.part[i], kBits); });
}
CERA_INLINE Ints BitsOf(Floats a) {
  return ForEachPart<Ints>([&](int i) { return vreinterpretq_s32_f32(a.part[i]); });
}
CERA_INLINE Floats FromBits(Ints a) {
  return ForEachPart<Floats>([&](int i) { return vreinterpretq_f32_s32(a.part[i]); });
}
CERA_INLINE Ints RoundToInts(Floats a) {
  return AddInts(BitsOf(Add(a, Broadcast(12582912.0f))), BroadcastInt(-0x4b400000));
}

CERA_INLINE Bytes LoadBytes(const uint8_t* p) {
  return ForEachPart<Bytes>([&](int i) { return vld1q_u8(p + 16 * i); });
}
CERA_INLINE Bytes Or(Bytes a, Bytes b) {
  return ForEachPart<Bytes>([&](int i) { return vorrq_u8(a.part[i], b.part[i]); });
}
template <int kShift, int kMask>
CERA_INLINE Bytes ShiftAndMask(Bytes a) {
  return ForEachPart<Bytes>([&](int i) {
    uint8x16_t shifted = a.part[i];
    if constexpr (kShift > 0) shifted = vshrq_n_u8(shifted, kShift);
    if constexpr (kShift < 0) shifted = vshlq_n_u8(shifted, -kShift);
    return vandq_u8(shifted, vdupq_n_u8(kMask));
  });
}
// The dot product is of signed values. Codes of 8 bits are moved down by 128, which is added again as 128 * sum(x).
template <bool kWide>
CERA_INLINE Ints Dot(Ints sum, Bytes codes, const int8_t* x) {
  int32_t four_values;
  memcpy(&four_values, x, sizeof(four_values));
  const int8x16_t broadcast = vreinterpretq_s8_s32(vdupq_n_s32(four_values));
  return ForEachPart<Ints>([&](int i) {
    if constexpr (!kWide) return vdotq_s32(sum.part[i], vreinterpretq_s8_u8(codes.part[i]), broadcast);
    const int8x16_t lowered = vreinterpretq_s8_u8(veorq_u8(codes.part[i], vdupq_n_u8(128)));
    const int32x4_t correction = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(1), broadcast);
    return vaddq_s32(vdotq_s32(sum.part[i], lowered, broadcast), vshlq_n_s32(correction, 7));
  });
}

CERA_INLINE float SumOfLanes(Floats a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.part[0], a.part[2]), vaddq_f32(a.part[1], a.part[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
CERA_INLINE float MaxOfLanes(Floats a) {
  float lane[16];
  StoreFloats(lane, a);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}
CERA_INLINE int32_t SumOfLanes(Ints a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.part[0], a.part[1]), vaddq_s32(a.part[2], a.part[3])));
}
CERA_INLINE int32_t MaxOfLanes(Ints a) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.part[0], a.part[1]), vmaxq_s32(a.part[2], a.part[3])));
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_SIMD_NEON_H_
