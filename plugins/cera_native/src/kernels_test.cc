// Every kernel on every instruction set of this machine against the plain build, bit for bit; and one row against many.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <string>
#include <vector>

#include "dispatch.h"
#include "error.h"
#include "packed_matrix.h"
#include "test_support.h"

namespace cera {
namespace {

constexpr uint64_t kExpectedFingerprint = 0x42725dbc0809aec2;

Fingerprint fingerprint;

// Compares what a table computed with what the plain one did; the plain result joins the fingerprint.
template <class T>
void Check(const Kernels& kernels, const std::vector<T>& result, const std::vector<T>& expected,
           const std::string& what) {
  if (!SameBits(result, expected)) Fail(std::string(kernels.name) + ", " + what);
  if (&kernels == &kPlainKernels) fingerprint.Add(expected);
}

// ---- Products

struct Quantised {
  std::vector<int8_t> codes;
  std::vector<BlockSums> sums;
  QuantisedColumns columns;
};

Quantised QuantiseAll(const Kernels& kernels, const std::vector<float>& x, int num_columns, int width) {
  Quantised result = {std::vector<int8_t>(x.size()), std::vector<BlockSums>(x.size() / kBlock), {}};
  result.columns = {result.codes.data(), result.sums.data(), num_columns, width / kBlock};
  for (int i = 0; i < num_columns; ++i) {
    kernels.quantise(x.data() + static_cast<size_t>(i) * width, i, 0, width / kBlock, result.columns);
  }
  return result;
}

std::vector<float> Product(const Kernels& kernels, const PackedMatrix& matrix, const std::vector<float>& x,
                           int num_columns, const float* bias) {
  const int width = matrix.num_columns();
  const Quantised quantised = QuantiseAll(kernels, x, num_columns, width);
  std::vector<float> y(static_cast<size_t>(num_columns) * matrix.num_rows(), 1.0f);
  MultiplyArgs args = {};
  args.tiles = matrix.tiles();
  args.tile_bytes = matrix.tile_bytes();
  args.num_rows = matrix.num_rows();
  args.num_inner = width;
  args.num_tiles = matrix.num_tiles();
  args.quantised = quantised.columns;
  args.values = x.data();
  args.values_stride = static_cast<size_t>(width);
  args.num_columns = num_columns;
  args.bias = bias;
  args.y = y.data();
  args.y_stride = static_cast<size_t>(matrix.num_rows());
  args.add = true;
  kernels.multiply[matrix.type()](args);
  return y;
}

// What the product should be about, from the weights one by one.
void CheckAgainstDefinition(const PackedMatrix& matrix, const std::vector<float>& x, const std::vector<float>& y,
                            const float* bias, const std::string& what) {
  std::vector<float> row(static_cast<size_t>(matrix.num_columns()));
  for (int i = 0; i < matrix.num_rows(); ++i) {
    matrix.ReadRow(i, row.data());
    double sum = 1.0 + bias[i], size = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      sum += static_cast<double>(row[k]) * x[k];
      size += static_cast<double>(row[k]) * row[k];
    }
    const double difference = y[i] - sum, tolerance = 1e-3 + 0.1 * __builtin_sqrt(size);
    if (!(difference < tolerance && -difference < tolerance)) {
      return Fail(what + " is far from its definition: row " + std::to_string(i) + ", " + std::to_string(y[i]) +
                  " for " + std::to_string(sum));
    }
  }
}

void TestProducts(const std::vector<const Kernels*>& tables) {
  constexpr int kRows = 37, kWidth = 768, kMostColumns = 19;
  ThreadPool pool(1);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(kMostColumns) * kWidth, 7);
  const std::vector<float> bias = RandomFloats(kRows, 8);
  for (const FileFormat& format : FileFormats()) {
    Arena arena;
    const std::vector<uint8_t> bytes = RandomWeights(format, kRows, kWidth, static_cast<uint64_t>(format.type) + 1);
    const PackedMatrix matrix({format.name, format.type, kRows, kWidth, bytes.data(), bytes.size()}, arena, pool);
    const std::vector<float> expected = Product(kPlainKernels, matrix, x, kMostColumns, bias.data());
    CheckAgainstDefinition(matrix, x, expected, bias.data(), format.name);
    for (const Kernels* kernels : tables) {
      for (int n = 1; n <= kMostColumns; ++n) {
        const std::vector<float> some(expected.begin(), expected.begin() + n * kRows);
        Check(*kernels, Product(*kernels, matrix, x, n, bias.data()), some,
              std::string(format.name) + " times " + std::to_string(n) + " columns");
      }
    }
  }
}

// ---- Element by element

void TestElementwise(const std::vector<const Kernels*>& tables) {
  constexpr int kSize = 91;  // no multiple of the lanes
  const std::vector<float> x = RandomFloats(kSize, 1), y = RandomFloats(kSize, 2);
  const auto run = [&](const Kernels& kernels) {
    std::vector<float> out(4 * kSize);
    out[0] = kernels.rms_scale(x.data(), kSize, 1e-5f);
    kernels.scale_by(x.data(), out[0], y.data(), 1, kSize, out.data());
    kernels.silu_multiply(x.data(), y.data(), kSize, out.data() + kSize);
    kernels.divide(x.data(), 3.0f, kSize, out.data() + 2 * kSize);
    memcpy(out.data() + 3 * kSize, x.data(), sizeof(float) * kSize);
    kernels.rotate(out.data() + 3 * kSize, x.data(), y.data(), 20, true);
    kernels.rotate(out.data() + 3 * kSize, y.data(), x.data(), 20, false);
    return out;
  };
  const std::vector<float> expected = run(kPlainKernels);
  for (int i = 0; i < kSize; ++i) {
    const double silu = x[i] / (1.0 + __builtin_exp(-static_cast<double>(x[i]))) * y[i];
    const double difference = expected[kSize + i] - silu;
    if (!(difference < 1e-5 && -difference < 1e-5)) Fail("silu is far from its definition");
  }
  for (const Kernels* kernels : tables) Check(*kernels, run(*kernels), expected, "elementwise");
}

void TestQuantisation(const std::vector<const Kernels*>& tables) {
  constexpr int kWidth = 128, kColumns = 11;
  std::vector<float> x = RandomFloats(kWidth * kColumns, 3);
  for (int i = 0; i < kBlock; ++i) x[kWidth + i] = 0.0f;
  for (int i = 0; i < kBlock; ++i) x[2 * kWidth + i] *= 1e-38f;
  const Quantised expected = QuantiseAll(kPlainKernels, x, kColumns, kWidth);
  for (const Kernels* kernels : tables) {
    const Quantised result = QuantiseAll(*kernels, x, kColumns, kWidth);
    Check(*kernels, result.codes, expected.codes, "codes of activations");
    if (memcmp(result.sums.data(), expected.sums.data(), expected.sums.size() * sizeof(BlockSums)) != 0) {
      Fail(std::string(kernels->name) + ", sums of activations");
    }
  }
}

// One value that is no number, in any place, makes the scale of its block none either: no product can then lose it.
void TestQuantisationOfNan(const std::vector<const Kernels*>& tables) {
  for (const Kernels* kernels : tables) {
    for (uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fc00123u}) {
      for (int place = 0; place < kBlock; ++place) {
        std::vector<float> x = RandomFloats(kBlock, 12);
        x[place] = FloatFromUint32(bits);
        const Quantised result = QuantiseAll(*kernels, x, 1, kBlock),
                        expected = QuantiseAll(kPlainKernels, x, 1, kBlock);
        if (result.sums[0].scale == result.sums[0].scale) {
          return Fail(std::string(kernels->name) + " loses what is no number at place " + std::to_string(place));
        }
        Check(*kernels, result.codes, expected.codes, "codes beside what is no number");
      }
    }
  }
}

void TestHalves(const std::vector<const Kernels*>& tables) {
  Random random(4);
  std::vector<float> values(65536 + 64);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t anything = random.Next() << 1 | (random.Next() & 1);
    const float value = i < 65536 ? FloatFromHalf(static_cast<uint16_t>(i)) : FloatFromUint32(anything);
    values[i] = value == value ? value : 1.0f;
  }
  for (size_t i = 0; i < 65536; i += 2) values[i] *= 1.0004f;  // between two halves
  std::vector<uint16_t> expected(values.size());
  for (size_t i = 0; i < values.size(); ++i) expected[i] = HalfFromFloat(values[i]);
  for (const Kernels* kernels : tables) {
    std::vector<uint16_t> result(values.size());
    kernels->store_value(values.data(), static_cast<int>(values.size()), static_cast<int>(values.size()), 0, true,
                         result.data());
    Check(*kernels, result, expected, "rounding to half precision");
  }
}

// ---- Attention

struct AttentionCase {
  int head_dim, num_queries, num_keys, first_position, group;
  bool half;
};

// Runs queries over the keys in chunks; returns output, maxima and sums of each query.
std::vector<float> RunAttention(const Kernels& kernels, const AttentionCase& c, int first_query, int num_queries) {
  const int padded = (c.head_dim + 15) / 16 * 16, num_chunks = (c.num_keys + kChunkKeys - 1) / kChunkKeys;
  std::vector<float> keys(static_cast<size_t>(num_chunks) * kChunkKeys * c.head_dim);  // large enough for halves too
  std::vector<float> values(static_cast<size_t>(num_chunks) * kChunkKeys * padded);
  const size_t element = c.half ? 2 : 4;
  const auto at = [&](std::vector<float>& cache, int chunk, int width) {
    return reinterpret_cast<uint8_t*>(cache.data()) + static_cast<size_t>(chunk) * kChunkKeys * width * element;
  };
  for (int i = 0; i < c.num_keys; ++i) {
    const std::vector<float> key = RandomFloats(c.head_dim, 100 + i), value = RandomFloats(c.head_dim, 5000 + i);
    kernels.store_key(key.data(), c.head_dim, i % kChunkKeys, c.half, at(keys, i / kChunkKeys, c.head_dim));
    kernels.store_value(value.data(), c.head_dim, padded, i % kChunkKeys, c.half, at(values, i / kChunkKeys, padded));
  }
  const std::vector<float> queries = RandomFloats(static_cast<size_t>(c.num_queries) * c.head_dim, 9);
  std::vector<float> scores(kMaxQueryRows * kChunkKeys), part(static_cast<size_t>(kMaxQueryRows) * (padded + 2));
  const auto gathered = [&](float* memory) {
    return Gathered{memory, memory + num_queries * padded, memory + num_queries * (padded + 1)};
  };
  std::vector<float> result(static_cast<size_t>(num_queries) * (padded + 2));
  const Gathered total = gathered(result.data());
  for (int i = 0; i < num_queries; ++i) total.maxima[i] = -__builtin_inff();
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    std::vector<int> num_visible;
    for (int i = first_query; i < first_query + num_queries; ++i) {
      const int seen = c.first_position + i / c.group + 1 - chunk * kChunkKeys;
      num_visible.push_back(seen < kChunkKeys ? seen : kChunkKeys);
    }
    const AttendArgs args = {at(keys, chunk, c.head_dim),
                             at(values, chunk, padded),
                             c.head_dim,
                             padded,
                             queries.data() + static_cast<size_t>(first_query) * c.head_dim,
                             num_visible.data(),
                             num_queries,
                             scores.data(),
                             gathered(part.data())};
    kernels.attend(args, c.half);
    kernels.join(args.result, num_queries, padded, total);
  }
  return result;
}

void TestAttention(const std::vector<const Kernels*>& tables) {
  const AttentionCase cases[] = {{64, 15, 530, 520, 3, true},
                                 {64, 8, 8, 0, 1, false},
                                 {80, 12, 300, 290, 2, true},
                                 {24, 32, 270, 250, 4, false},
                                 {16, 7, 512, 505, 1, true}};
  for (const AttentionCase& c : cases) {
    const std::string what = "attention with heads of " + std::to_string(c.head_dim);
    const int padded = (c.head_dim + 15) / 16 * 16;
    const std::vector<float> expected = RunAttention(kPlainKernels, c, 0, c.num_queries);
    for (const Kernels* kernels : tables) {
      Check(*kernels, RunAttention(*kernels, c, 0, c.num_queries), expected, what);
      for (int i = 0; i < c.num_queries; ++i) {
        const std::vector<float> alone = RunAttention(*kernels, c, i, 1);
        if (memcmp(alone.data(), expected.data() + i * padded, padded * sizeof(float)) != 0) {
          Fail(std::string(kernels->name) + ", " + what + ": a query alone differs from one among others");
        }
      }
    }
  }
}

// ---- Refusals

void TestRefusals() {
  Arena arena;
  ThreadPool pool(1);
  const std::vector<uint8_t> bytes(1 << 12);
  const RawTensor broken[] = {
      {"of an unknown type", 11, 16, 32, bytes.data(), bytes.size()},
      {"of a negative type", -1, 16, 32, bytes.data(), bytes.size()},
      {"with too few bytes", 2, 16, 64, bytes.data(), 16 * 36 - 1},
      {"with too many bytes", 2, 16, 64, bytes.data(), 16 * 36 + 1},
      {"with part of a block", 2, 1, 33, bytes.data(), 18},
      {"without rows", 2, 0, 32, bytes.data(), 0},
      {"of overflowing size", 0, int64_t{1} << 40, int64_t{1} << 40, bytes.data(), 0},
  };
  for (const RawTensor& tensor : broken) {
    try {
      PackedMatrix(tensor, arena, pool);
      Fail("a tensor " + tensor.name + " was taken");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace cera

int main() {
  using namespace cera;
  const std::vector<const Kernels*> tables = AvailableKernels();
  TestProducts(tables);
  TestElementwise(tables);
  TestQuantisation(tables);
  TestQuantisationOfNan(tables);
  TestHalves(tables);
  TestAttention(tables);
  TestRefusals();
  for (const Kernels* kernels : tables) printf("%s ", kernels->name);
  fingerprint.Check(kExpectedFingerprint);
  return num_failures == 0 ? 0 : 1;
}
