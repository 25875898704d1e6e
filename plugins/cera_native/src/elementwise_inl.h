// Norms, quantisation, rotation and the gate. Included after one of simd/*.h.
#ifndef CERA_NATIVE_ELEMENTWISE_INL_H_
#define CERA_NATIVE_ELEMENTWISE_INL_H_

#include "kernels.h"

namespace cera {
namespace {

constexpr int kLanes = 16;

CERA_INLINE Floats LoadPart(const float* p, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return LoadFloats(lanes);
}
CERA_INLINE void StorePart(float* p, int n, Floats a) {
  float lanes[kLanes];
  StoreFloats(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

// e^x for x in [-86, 88], clamped outside: 2^n * e^r with |r| <= ln(2) / 2 and Taylor's polynomial of degree 7, whose
// remainder there is below 3e-9 of the result.
CERA_INLINE Floats Exp(Floats x) {
  x = Max(x, Broadcast(-86.0f));
  x = Subtract(Broadcast(0.0f), Max(Subtract(Broadcast(0.0f), x), Broadcast(-88.0f)));
  const Ints n = RoundToInts(Multiply(x, Broadcast(1.44269504f)));
  const Floats whole = ToFloats(n);
  Floats r = MultiplyAdd(whole, Broadcast(-0.693359375f), x);     // ln(2) in two parts, the first of few bits,
  r = MultiplyAdd(whole, Broadcast(2.12194440054690583e-4f), r);  // so that the product is exact
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  Floats sum = Broadcast(1.0f / 5040);
  for (float coefficient : kTaylor) sum = MultiplyAdd(sum, r, Broadcast(coefficient));
  return FromBits(AddInts(BitsOf(sum), ShiftLeft<23>(n)));
}

// Calls function(offset, load, store) for each sixteen elements of [first, last), the last ones as a part.
template <class Function>
CERA_INLINE void ForEachVector(int first, int last, Function function) {
  int i = first;
  for (; i + kLanes <= last; i += kLanes) {
    function(i, [](const float* p) { return LoadFloats(p); }, [](float* p, Floats a) { StoreFloats(p, a); });
  }
  if (i < last) {
    const int n = last - i;
    function(i, [n](const float* p) { return LoadPart(p, n); }, [n](float* p, Floats a) { StorePart(p, n, a); });
  }
}

[[maybe_unused]] float RmsScale(const float* x, int n, float eps) {
  Floats squares = Broadcast(0.0f);
  ForEachVector(0, n, [&](int i, auto load, auto) {
    const Floats part = load(x + i);
    squares = MultiplyAdd(part, part, squares);
  });
  const float mean = SumOfLanes(squares) / static_cast<float>(n);
  // Squares that overflow would give a scale of 0, and logits that look like any others.
  return mean < __builtin_inff() ? 1.0f / __builtin_sqrtf(mean + eps) : __builtin_nanf("");
}

void ScaleBy(const float* x, float scale, const float* weight, int first, int last, float* y) {
  ForEachVector(first, last, [&](int i, auto load, auto store) {
    store(y + i, Multiply(Multiply(load(x + i), Broadcast(scale)), load(weight + i)));
  });
}

void SiluMultiply(const float* gate, const float* up, int n, float* y) {
  ForEachVector(0, n, [&](int i, auto load, auto store) {
    const Floats x = load(gate + i);
    const Floats divisor = Add(Broadcast(1.0f), Exp(Subtract(Broadcast(0.0f), x)));
    store(y + i, Multiply(Divide(x, divisor), load(up + i)));
  });
}

// x * (1 + tanh(z)) / 2 with z = sqrt(2 / pi) * (x + 0.044715 x^3), and (1 + tanh(z)) / 2 = 1 / (1 + e^(-2 z)).
void GeluMultiply(const float* gate, const float* up, int n, float* y) {
  ForEachVector(0, n, [&](int i, auto load, auto store) {
    const Floats x = load(gate + i);
    const Floats cubic = MultiplyAdd(Multiply(Multiply(x, x), Broadcast(0.044715f)), x, x);
    const Floats exponent = Multiply(cubic, Broadcast(-1.5957691216057308f));
    store(y + i, Multiply(Divide(x, Add(Broadcast(1.0f), Exp(exponent))), load(up + i)));
  });
}

void DivideBy(const float* x, float divisor, int n, float* y) {
  ForEachVector(0, n, [&](int i, auto load, auto store) { store(y + i, Divide(load(x + i), Broadcast(divisor))); });
}

// Values below this are taken for 0: the reciprocal of their scale would overflow.
constexpr float kSmallestMaximum = 1e-30f;

CERA_INLINE void QuantiseBlock(const float* x, int8_t* codes, BlockSums* sums) {
  const Floats low = LoadFloats(x), high = LoadFloats(x + kLanes);
  // As integers the bits of absolute values are ordered as the values are, and NaN is above all of them.
  const float maximum = __builtin_bit_cast(float, MaxOfLanes(MaxOfInts(BitsOf(Abs(low)), BitsOf(Abs(high)))));
  const bool is_zero = maximum < kSmallestMaximum;  // not for NaN, which the scale hands on
  const Floats reciprocal = Broadcast(is_zero ? 0.0f : 127.0f / maximum);
  const Floats least = Broadcast(-128.0f);  // what NaN becomes; all else is within 127 of 0
  const Ints low_codes = RoundToInts(Max(Multiply(low, reciprocal), least));
  const Ints high_codes = RoundToInts(Max(Multiply(high, reciprocal), least));
  StoreInt8s(codes, low_codes);
  StoreInt8s(codes + kLanes, high_codes);
  const int32_t low_sum = SumOfLanes(low_codes), high_sum = SumOfLanes(high_codes);
  const float scale = is_zero ? 0.0f : maximum / 127.0f;
  *sums = {scale, scale * static_cast<float>(low_sum + high_sum), -(low_sum + high_sum), {-low_sum, -high_sum}};
}

void Quantise(const float* x, int column, int first_block, int last_block, const QuantisedColumns& y) {
  for (int block = first_block; block < last_block; ++block) {
    const size_t index = y.BlockIndex(column / kGroupColumns, block, column % kGroupColumns);
    QuantiseBlock(x + (block - first_block) * kBlock, y.codes + index * kBlock, y.sums + index);
  }
}

void Rotate(float* head, const float* cosines, const float* sines, int num_pairs, bool interleaved) {
  const int step = interleaved ? 2 : 1, distance = interleaved ? 1 : num_pairs;
  for (int i = 0; i < num_pairs; ++i) {
    float *first = head + i * step, *second = first + distance;
    const float x = *first, y = *second;
    *first = x * cosines[i] - y * sines[i];
    *second = x * sines[i] + y * cosines[i];
  }
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_ELEMENTWISE_INL_H_
