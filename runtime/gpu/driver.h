// The functions of CUDA's driver that have no counterpart in its runtime library. They are looked
// for when they are first needed, so a program starts on machines without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

struct Driver {
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&::cuCtxGetCurrent) current_context = nullptr;
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_address = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&::cuCtxRecordEvent) record_context = nullptr;  // null: a driver before 12.5

  bool maps_memory() const { return create != nullptr && import_handle != nullptr; }
};
const Driver& driver();

// Throw GpuError, which names the function, unless it succeeded.
void check(cudaError_t status, const char* function);
void check(CUresult status, const char* function);

}  // namespace batchflow::gpu

#define BF_GPU(function, ...) ::batchflow::gpu::check(function(__VA_ARGS__), #function)
