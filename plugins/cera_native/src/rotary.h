// Sines and cosines of rotary angles, with one definition for all machines.
#ifndef CERA_NATIVE_ROTARY_H_
#define CERA_NATIVE_ROTARY_H_

#include <vector>

namespace cera {

struct Rotary {
  std::vector<double> frequencies;  // radians per position of each pair
  bool interleaved;
  double magnitude = 1.0;  // what turned elements are multiplied by

  int num_pairs() const { return static_cast<int>(frequencies.size()); }
};

// Writes cos and sin, times the magnitude, of `position * frequency` for each pair.
void RotaryAngles(const Rotary& rotary, int position, float* cosines, float* sines);

}  // namespace cera

#endif  // CERA_NATIVE_ROTARY_H_
