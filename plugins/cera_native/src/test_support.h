// What the tests of the C++ code share: random numbers and weights, the same on every machine, and a count of failures.
#ifndef CERA_NATIVE_TEST_SUPPORT_H_
#define CERA_NATIVE_TEST_SUPPORT_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <string>
#include <vector>

#include "half.h"

namespace cera {
namespace {

int num_failures = 0;

[[maybe_unused]] void Fail(const std::string& what) {
  printf("FAILED: %s\n", what.c_str());
  ++num_failures;
}

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Boils everything that was computed down to one number, which must be the same on every machine: that is how a machine
// with NEON and one with AVX-512 are compared.
class Fingerprint {
 public:
  template <class T>
  void Add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) value_ = (value_ ^ bytes[i]) * 1099511628211u;
  }
  uint64_t value() const { return value_; }

  // Prints it after the names of what was tested; a value that is not as expected is a failure.
  void Check(uint64_t expected) const {
    printf("%016llx\n", static_cast<unsigned long long>(value_));
    if (value_ != expected) Fail("the fingerprint differs from that of other machines");
  }

 private:
  uint64_t value_ = 14695981039346656037u;
};

// A small generator of its own: the standard library's distributions differ between machines.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float Uniform() { return static_cast<float>(Next() % 2000001u) * 1e-6f - 1.0f; }

 private:
  uint64_t state_;
};

[[maybe_unused]] std::vector<float> RandomFloats(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = random.Uniform() * (random.Next() % 50 == 0 ? 20.0f : 1.0f);
  return values;
}

struct FileFormat {
  const char* name;
  int type, block, block_bytes;
  std::vector<int> halves;  // offsets of half-precision numbers in a block
};

[[maybe_unused]] const std::vector<FileFormat>& FileFormats() {
  static const std::vector<FileFormat> formats = {
      {"F32", 0, 1, 4, {}},           {"F16", 1, 1, 2, {0}},         {"BF16", 30, 1, 2, {}},
      {"Q4_0", 2, 32, 18, {0}},       {"Q4_1", 3, 32, 20, {0, 2}},   {"Q5_0", 6, 32, 22, {0}},
      {"Q5_1", 7, 32, 24, {0, 2}},    {"Q8_0", 8, 32, 34, {0}},      {"Q4_K", 12, 256, 144, {0, 2}},
      {"Q5_K", 13, 256, 176, {0, 2}}, {"Q6_K", 14, 256, 210, {208}},
  };
  return formats;
}

// Random bytes, but with numbers where numbers belong.
[[maybe_unused]] std::vector<uint8_t> RandomWeights(const FileFormat& format, int num_rows, int num_columns,
                                                    uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(num_rows) * num_columns / format.block * format.block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  for (size_t at = 0; at < bytes.size(); at += format.block_bytes) {
    const float number = random.Uniform() * 0.1f;
    const uint32_t bits = Uint32FromFloat(number);
    if (format.type == 0) memcpy(&bytes[at], &bits, 4);
    if (format.type == 30) {
      const uint16_t top = static_cast<uint16_t>(bits >> 16);
      memcpy(&bytes[at], &top, 2);
    }
    for (int offset : format.halves) {
      const uint16_t half = HalfFromFloat(random.Uniform() * 0.1f);
      memcpy(&bytes[at + offset], &half, 2);
    }
  }
  return bytes;
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_TEST_SUPPORT_H_
