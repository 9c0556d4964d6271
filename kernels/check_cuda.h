// For sources that call CUDA's runtime.
#pragma once

#include <cuda_runtime.h>

#include "kernels/device_error.h"

namespace batchflow::kernels {

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that can be recovered from is not seen again
  throw DeviceError(status, std::string(call) + ": " + cudaGetErrorString(status));
}

}  // namespace batchflow::kernels

#define BF_CUDA(call) ::batchflow::kernels::check_cuda((call), #call)
