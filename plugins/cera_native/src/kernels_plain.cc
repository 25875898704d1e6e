#include "simd/plain.h"
// The vectors come first: the kernels are written in their terms.
#include "kernels_inl.h"

namespace cera {

extern const Kernels kPlainKernels = MakeKernels("plain");

}  // namespace cera
