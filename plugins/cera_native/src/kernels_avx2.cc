#include "simd/avx2.h"
// The vectors come first: the kernels are written in their terms.
#include "kernels_inl.h"

namespace cera {

extern const Kernels kAvx2Kernels = MakeKernels("avx2");

}  // namespace cera
