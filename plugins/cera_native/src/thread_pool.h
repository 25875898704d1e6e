// Threads that work on one job together, step by step.
#ifndef CERA_NATIVE_THREAD_POOL_H_
#define CERA_NATIVE_THREAD_POOL_H_

#include <stdint.h>
#include <sys/types.h>

#include <atomic>
#include <thread>
#include <vector>

namespace cera {

// What a thread of the pool knows of the job: which one it is, and how to wait for the others.
class Team {
 public:
  virtual ~Team() = default;
  virtual int num_threads() const = 0;
  virtual void Barrier() = 0;
};

struct Range {
  int first, last;

  int size() const { return last - first; }
};

// The share of thread `thread` in `total` items: contiguous, shares differ by at most one item.
inline Range ShareOf(int total, int thread, int num_threads) {
  return {static_cast<int>(static_cast<int64_t>(total) * thread / num_threads),
          static_cast<int>(static_cast<int64_t>(total) * (thread + 1) / num_threads)};
}

// The calling thread is one of the team, so a pool of one has no thread of its own. Waiting spins for some microseconds
// and then sleeps, so a pool without work, or on a busy machine, costs nothing. Not reentrant: one `Run` at a time.
class ThreadPool : public Team {
 public:
  using Job = void (*)(void* context, int thread);

  explicit ThreadPool(int num_threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const override { return num_threads_; }
  void Barrier() override;

  // Throws Error in a process forked from the one that made the pool: there the threads do not exist, and a lock that
  // one of them held is held for ever.
  void CheckProcess() const;

  // Calls job(thread) on every thread and returns when all have. The job does not throw.
  template <class Function>
  void Run(Function&& job) {
    RunJob([](void* context, int thread) { (*static_cast<Function*>(context))(thread); }, &job);
  }

 private:
  void RunJob(Job job, void* context);
  void Stop();
  void Work(int thread);

  const int num_threads_;
  const pid_t process_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  bool is_stopping_ = false;
  alignas(64) std::atomic<uint32_t> num_jobs_{0};
  alignas(64) std::atomic<uint32_t> num_arrived_{0};
  alignas(64) std::atomic<uint32_t> num_barriers_{0};
  std::vector<std::thread> threads_;
};

}  // namespace cera

#endif  // CERA_NATIVE_THREAD_POOL_H_
