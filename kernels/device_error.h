// What a GPU refuses, as an exception.
#pragma once

#include <stdexcept>
#include <string>

namespace batchflow::kernels {

class DeviceError : public std::runtime_error {
 public:
  // `code` is a cudaError_t.
  DeviceError(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace batchflow::kernels
