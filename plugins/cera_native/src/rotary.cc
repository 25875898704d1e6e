#include "rotary.h"

#include <math.h>

namespace cera {
namespace {

// Taylor's polynomials of sine and cosine: for |x| <= pi / 4 the first term left out is below 1e-15.
double SineOfSmall(double x) {
  const double x2 = x * x;
  double sum = 1.0 / 6227020800;
  for (double c : {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}) sum = sum * x2 + c;
  return sum * x;
}

double CosineOfSmall(double x) {
  const double x2 = x * x;
  double sum = -1.0 / 87178291200;
  for (double c : {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0}) sum = sum * x2 + c;
  return sum;
}

// The quarters of a turn in an angle, and what is left: pi / 2 in two parts, the first of 33 bits, so that its product
// with the number of quarters is exact for any position a context has.
struct ReducedAngle {
  long long quarters;
  double rest;
};
ReducedAngle Reduce(double angle) {
  const double quarters = floor(angle * 0.63661977236758134308 + 0.5);
  const double rest = (angle - quarters * 1.57079632673412561417) - quarters * 6.07710050650619224932e-11;
  return {static_cast<long long>(quarters), rest};
}

}  // namespace

void RotaryAngles(const Rotary& rotary, int position, float* cosines, float* sines) {
  for (int i = 0; i < rotary.num_pairs(); ++i) {
    const ReducedAngle angle = Reduce(position * rotary.frequencies[i]);
    const double sine = SineOfSmall(angle.rest), cosine = CosineOfSmall(angle.rest);
    const int quarter = static_cast<int>(angle.quarters & 3);
    const double turned_cosine = (quarter % 2 == 0 ? cosine : sine) * rotary.magnitude;
    const double turned_sine = (quarter % 2 == 0 ? sine : cosine) * rotary.magnitude;
    cosines[i] = static_cast<float>(quarter == 1 || quarter == 2 ? -turned_cosine : turned_cosine);
    sines[i] = static_cast<float>(quarter >= 2 ? -turned_sine : turned_sine);
  }
}

}  // namespace cera
