#include "simd/neon.h"
// The vectors come first: the kernels are written in their terms.
#include "kernels_inl.h"

namespace cera {

extern const Kernels kNeonKernels = MakeKernels("neon");

}  // namespace cera
