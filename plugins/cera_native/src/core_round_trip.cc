#include "core_round_trip.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace cera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStop = -1;
constexpr auto kLongest = std::chrono::milliseconds(5);  // on a busy machine a thread may have to wait for its turn

// Returns the first value that is not `value`; gives way now and then, in case the other thread waits for this core.
int WaitForOther(const std::atomic<int>& ball, int value) {
  for (int spin = 1;; ++spin) {
    const int found = ball.load(std::memory_order_acquire);
    if (found != value) return found;
    if (spin % 10000 == 0) std::this_thread::yield();
  }
}

}  // namespace

double CoreRoundTrip(int num_rounds) {
  alignas(64) std::atomic<int> ball{0};
  std::thread other([&] {
    int value = 0;
    while ((value = WaitForOther(ball, value)) != kStop) ball.store(++value, std::memory_order_release);
  });
  const auto play_round = [&](int round) {
    ball.store(2 * round + 1, std::memory_order_release);
    WaitForOther(ball, 2 * round + 1);
    return Clock::now();
  };
  const Clock::time_point start = play_round(0);  // waits for the thread to start
  Clock::time_point now = start;
  int round = 0;
  while (round < num_rounds && now - start < kLongest) now = play_round(++round);
  ball.store(kStop, std::memory_order_release);
  other.join();
  return std::chrono::duration<double, std::nano>(now - start).count() / round;
}

}  // namespace cera
