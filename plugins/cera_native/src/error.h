// Errors that Python sees as those of cera_core.errors.
#ifndef CERA_NATIVE_ERROR_H_
#define CERA_NATIVE_ERROR_H_

#include <stdexcept>
#include <string>

namespace cera {

class Error : public std::runtime_error {
 public:
  // `python_class` is a name in cera_core.errors.
  Error(const char* python_class, const std::string& message)
      : std::runtime_error(message), python_class_(python_class) {}

  const char* python_class() const { return python_class_; }

 private:
  const char* python_class_;
};

}  // namespace cera

#endif  // CERA_NATIVE_ERROR_H_
