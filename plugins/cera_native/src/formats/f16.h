// F16: weights as they are; a tile holds them weight by weight, sixteen rows side by side.
#ifndef CERA_NATIVE_FORMATS_F16_H_
#define CERA_NATIVE_FORMATS_F16_H_

#include <stdint.h>

#include "half.h"

namespace cera {

struct F16 {
  using Stored = uint16_t;
  static constexpr int kFileBlock = 1, kFileBytes = 2;

  static float ToFloat(Stored weight) { return FloatFromHalf(weight); }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_F16_H_
