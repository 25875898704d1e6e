// The weight formats, by the numbers GGUF gives them.
#ifndef CERA_NATIVE_FORMATS_FORMATS_H_
#define CERA_NATIVE_FORMATS_FORMATS_H_

#include "formats/bf16.h"
#include "formats/f16.h"
#include "formats/f32.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q4_k.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/q8_0.h"

// X(format, number in GGUF): formats of weights that are floating point, and of those that are codes with scales.
#define CERA_FLOAT_FORMATS(X) X(F32, 0) X(F16, 1) X(Bf16, 30)
#define CERA_CODE_FORMATS(X) X(Q4_0, 2) X(Q4_1, 3) X(Q5_0, 6) X(Q5_1, 7) X(Q8_0, 8) X(Q4_K, 12) X(Q5_K, 13) X(Q6_K, 14)
#define CERA_FORMATS(X) CERA_FLOAT_FORMATS(X) CERA_CODE_FORMATS(X)

namespace cera {

constexpr int kNumGgufTypes = 31;

template <class Format, class = void>
struct IsFloatFormat {
  static constexpr bool kValue = false;
};
template <class Format>
struct IsFloatFormat<Format, decltype(void(sizeof(typename Format::Stored)))> {
  static constexpr bool kValue = true;
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_FORMATS_H_
