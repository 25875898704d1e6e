#include "thread_pool.h"

#include <unistd.h>

#include "error.h"

namespace cera {
namespace {

// Some 10 to 50 microseconds: longer than the others need for their share of a step on a quiet machine.
constexpr int kMostSpins = 1000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void WaitWhileEqual(const std::atomic<uint32_t>& word, uint32_t value) {
  for (int spin = 0; spin < kMostSpins; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return;
    Pause();
  }
  word.wait(value, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads), process_(getpid()) {
  threads_.reserve(static_cast<size_t>(num_threads - 1));
  try {
    for (int thread = 1; thread < num_threads; ++thread) threads_.emplace_back(&ThreadPool::Work, this, thread);
  } catch (...) {  // the system has no more threads; those there are must not outlive the pool
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  if (getpid() != process_) {  // a forked copy: there is nobody to join
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  is_stopping_ = true;
  num_jobs_.fetch_add(1, std::memory_order_release);
  num_jobs_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Barrier() {
  if (num_threads_ == 1) return;
  const uint32_t barrier = num_barriers_.load(std::memory_order_relaxed);
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<uint32_t>(num_threads_)) {
    WaitWhileEqual(num_barriers_, barrier);
    return;
  }
  num_arrived_.store(0, std::memory_order_relaxed);
  num_barriers_.store(barrier + 1, std::memory_order_release);
  num_barriers_.notify_all();
}

void ThreadPool::CheckProcess() const {
  if (getpid() != process_) {
    throw Error("ModelError",
                "A native model must be used in the process that loaded it, and this one was forked from it. Load the "
                "model after the fork, or start processes with the method \"spawn\".");
  }
}

void ThreadPool::RunJob(Job job, void* context) {
  CheckProcess();
  job_ = job;
  context_ = context;
  num_jobs_.fetch_add(1, std::memory_order_release);
  num_jobs_.notify_all();
  job(context, 0);
  Barrier();
}

void ThreadPool::Work(int thread) {
  for (uint32_t job = 0;; ++job) {
    WaitWhileEqual(num_jobs_, job);
    if (is_stopping_) return;
    job_(context_, thread);
    Barrier();
  }
}

}  // namespace cera
