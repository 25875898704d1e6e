// Half precision and bfloat16 to single precision and back, in integer arithmetic: the same on every machine.
#ifndef CERA_NATIVE_HALF_H_
#define CERA_NATIVE_HALF_H_

#include <stdint.h>
#include <string.h>

namespace cera {
namespace {

[[maybe_unused]] inline float FloatFromUint32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

[[maybe_unused]] inline uint32_t Uint32FromFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

[[maybe_unused]] inline float FloatFromBfloat(uint16_t bits) {
  return FloatFromUint32(static_cast<uint32_t>(bits) << 16);
}

[[maybe_unused]] inline float FloatFromHalf(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in single precision
    return FloatFromUint32(sign | Uint32FromFloat(static_cast<float>(mantissa) * 5.9604644775390625e-8f));
  }
  const uint32_t wide_exponent = exponent == 31 ? 255u : exponent + 112u;
  return FloatFromUint32(sign | wide_exponent << 23 | mantissa << 13);
}

// Rounds to nearest, ties to even; too large becomes infinite.
[[maybe_unused]] inline uint16_t HalfFromFloat(float value) {
  const uint32_t bits = Uint32FromFloat(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u | ((magnitude >> 13) & 1023u) : 0));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 rounds at 2^-24
    const float shifted = FloatFromUint32(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (Uint32FromFloat(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_HALF_H_
