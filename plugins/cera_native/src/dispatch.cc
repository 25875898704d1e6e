#include "dispatch.h"

#include "error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cera {
namespace {

#if defined(__x86_64__)
// Clang before 19 does not know "f16c" as a feature to ask for.
bool HasF16c() {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c(); }
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
bool HasDotProducts() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return true;  // every 64-bit processor of Apple's since 2019
#endif
}
#endif

}  // namespace

std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
#if defined(__x86_64__)
  if (HasAvx512()) available.push_back(&kAvx512Kernels);
  if (HasAvx2()) available.push_back(&kAvx2Kernels);
#elif defined(__aarch64__)
  if (HasDotProducts()) available.push_back(&kNeonKernels);
#endif
  available.push_back(&kPlainKernels);
  return available;
}

const Kernels& ChooseKernels(const std::string& name) {
  std::string names;
  for (const Kernels* kernels : AvailableKernels()) {
    if (name.empty() || name == kernels->name) return *kernels;
    names += (names.empty() ? "'" : ", '") + std::string(kernels->name) + "'";
  }
  throw Error("InvalidInputError",
              "The instruction set must be one this processor has, " + names + ", found '" + name + "'.");
}

}  // namespace cera
