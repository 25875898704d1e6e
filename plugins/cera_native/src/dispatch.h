// Which instruction sets this processor has.
#ifndef CERA_NATIVE_DISPATCH_H_
#define CERA_NATIVE_DISPATCH_H_

#include <string>
#include <vector>

#include "kernels.h"

namespace cera {

// The tables this processor can run, the fastest first; "plain" is always the last.
std::vector<const Kernels*> AvailableKernels();

// The table of that name, or the fastest if the name is empty. Throws Error if it is not available.
const Kernels& ChooseKernels(const std::string& name);

}  // namespace cera

#endif  // CERA_NATIVE_DISPATCH_H_
