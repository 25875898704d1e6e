// How long a cache line takes from one core to another and back: what tells apart the states a virtual machine can be
// in.
#ifndef CERA_NATIVE_CORE_ROUND_TRIP_H_
#define CERA_NATIVE_CORE_ROUND_TRIP_H_

namespace cera {

// Plays ping-pong between two threads for `num_rounds` rounds, but not much longer than 5 ms, and returns nanoseconds
// per round.
double CoreRoundTrip(int num_rounds);

}  // namespace cera

#endif  // CERA_NATIVE_CORE_ROUND_TRIP_H_
