#ifndef CERA_NATIVE_SIMD_COMMON_H_
#define CERA_NATIVE_SIMD_COMMON_H_

#if defined(_MSC_VER) && !defined(__clang__)
#error "cera_native needs GCC or Clang."
#endif

#define CERA_INLINE [[maybe_unused]] __attribute__((always_inline)) inline

#endif  // CERA_NATIVE_SIMD_COMMON_H_
