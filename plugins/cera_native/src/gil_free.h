// Work without Python's lock, and what becomes of it when the interpreter ends.
#ifndef CERA_NATIVE_GIL_FREE_H_
#define CERA_NATIVE_GIL_FREE_H_

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace cera {

// Lets other Python threads run while it lives. A daemon thread that asks for the lock again after the interpreter has
// begun to end is unwound, up to Python 3.13, which in C++ code aborts the process. So at exit the work under way is
// waited for, and what begins later keeps the lock. Python's lock guards the counters.
class GilFree {
 public:
  GilFree() {
    if (is_ending_) return;
    ++num_running_;
    thread_ = PyEval_SaveThread();
  }
  ~GilFree() {
    if (thread_ == nullptr) return;
    PyEval_RestoreThread(thread_);
    --num_running_;
  }
  GilFree(const GilFree&) = delete;
  GilFree& operator=(const GilFree&) = delete;

  // To be called once, when the module is made.
  static void PrepareForExit() {
    namespace nb = nanobind;
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(WaitForAll));
    // The threads that were at work do not exist in a forked process.
    nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") =
                                                            nb::cpp_function([] { num_running_ = 0; }));
  }

 private:
  static void WaitForAll() {
    is_ending_ = true;
    while (num_running_ > 0) {
      const nanobind::gil_scoped_release release;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static inline bool is_ending_ = false;
  static inline int num_running_ = 0;
  PyThreadState* thread_ = nullptr;
};

}  // namespace cera

#endif  // CERA_NATIVE_GIL_FREE_H_
