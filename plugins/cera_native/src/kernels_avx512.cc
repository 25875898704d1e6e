#include "simd/avx512.h"
// The vectors come first: the kernels are written in their terms.
#include "kernels_inl.h"

namespace cera {

extern const Kernels kAvx512Kernels = MakeKernels("avx512");

}  // namespace cera
