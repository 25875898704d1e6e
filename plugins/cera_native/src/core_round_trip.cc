#include "core_round_trip.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace cera {
namespace {

// Not forever: on one core the other thread may get its turn only when this one's time is up.
void WaitFor(const std::atomic<int>& ball, int value) {
  for (int spin = 1; ball.load(std::memory_order_acquire) != value; ++spin) {
    if (spin % 1000000 == 0) std::this_thread::yield();
  }
}

}  // namespace

double CoreRoundTrip(int num_rounds) {
  using Clock = std::chrono::steady_clock;
  alignas(64) std::atomic<int> ball{0};
  std::thread other([&] {
    for (int i = 0; i <= num_rounds; ++i) {
      WaitFor(ball, 2 * i + 1);
      ball.store(2 * i + 2, std::memory_order_release);
    }
  });
  Clock::time_point start;
  for (int i = 0; i <= num_rounds; ++i) {  // the first round waits for the thread to start
    if (i == 1) start = Clock::now();
    ball.store(2 * i + 1, std::memory_order_release);
    WaitFor(ball, 2 * i + 2);
  }
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  other.join();
  return elapsed.count() / num_rounds;
}

}  // namespace cera
