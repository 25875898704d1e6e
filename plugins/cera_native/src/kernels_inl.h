// Fills a table of kernels from the vectors included before: one of simd/*.h.
#ifndef CERA_NATIVE_KERNELS_INL_H_
#define CERA_NATIVE_KERNELS_INL_H_

#include "attention_inl.h"
#include "elementwise_inl.h"
#include "matmul_inl.h"

namespace cera {
namespace {

constexpr Kernels MakeKernels(const char* name) {
  Kernels kernels = {name,   {},       Quantise,   RmsScale, ScaleBy, SiluMultiply, GeluMultiply,
                     Rotate, StoreKey, StoreValue, Attend,   Join,    DivideBy};
#define CERA_SET_MULTIPLY(Format, number) kernels.multiply[number] = MultiplyOf<Format>();
  CERA_FORMATS(CERA_SET_MULTIPLY)
#undef CERA_SET_MULTIPLY
  return kernels;
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_KERNELS_INL_H_
