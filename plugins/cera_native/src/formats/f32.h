// F32: weights as they are; a tile holds them weight by weight, sixteen rows side by side.
#ifndef CERA_NATIVE_FORMATS_F32_H_
#define CERA_NATIVE_FORMATS_F32_H_

#include <stdint.h>

#include "half.h"

namespace cera {

struct F32 {
  using Stored = float;
  static constexpr int kFileBlock = 1, kFileBytes = 4;

  static float ToFloat(Stored weight) { return weight; }
};

}  // namespace cera

#endif  // CERA_NATIVE_FORMATS_F32_H_
