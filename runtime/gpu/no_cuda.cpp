// In place of cuda_device.cpp, where BatchFlow is built without a CUDA toolkit.
#include "runtime/gpu/device.h"

namespace batchflow::gpu {

Detection detect() {
  return {{}, "BatchFlow was built without CUDA"};
}

std::unique_ptr<Device> open_device(int) {
  throw GpuError(Trouble::refused, "BatchFlow was built without CUDA");
}

}  // namespace batchflow::gpu
