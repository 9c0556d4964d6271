#include "runtime/gpu/driver.h"

#include <fmt/format.h>

namespace batchflow::gpu {
namespace {

template <class Function>
void find(Function& function, const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) ==
          cudaSuccess &&
      result == cudaDriverEntryPointSuccess)
    function = reinterpret_cast<Function>(found);
  else
    (void)cudaGetLastError();
}

Driver find_all() {
  Driver found;
  find(found.error_string, "cuGetErrorString", 6000);
  find(found.device_attribute, "cuDeviceGetAttribute", 2000);
  find(found.current_context, "cuCtxGetCurrent", 4000);
  find(found.granularity, "cuMemGetAllocationGranularity", 10020);
  find(found.create, "cuMemCreate", 10020);
  find(found.release, "cuMemRelease", 10020);
  find(found.reserve, "cuMemAddressReserve", 10020);
  find(found.free_address, "cuMemAddressFree", 10020);
  find(found.map, "cuMemMap", 10020);
  find(found.unmap, "cuMemUnmap", 10020);
  find(found.set_access, "cuMemSetAccess", 10020);
  find(found.export_handle, "cuMemExportToShareableHandle", 10020);
  find(found.import_handle, "cuMemImportFromShareableHandle", 10020);
  find(found.record_context, "cuCtxRecordEvent", 12050);
  return found;
}

// After an error of the kind that all later calls answer, too, the device is of no more use.
Trouble trouble_after(bool out_of_memory) {
  if (out_of_memory) return Trouble::out_of_memory;
  (void)cudaGetLastError();  // an error that can be recovered from is not seen again
  return cudaFree(nullptr) == cudaSuccess ? Trouble::refused : Trouble::lost;
}

}  // namespace

const Driver& driver() {
  static const Driver all = find_all();
  return all;
}

void check(cudaError_t status, const char* function) {
  if (status == cudaSuccess) return;
  throw GpuError(trouble_after(status == cudaErrorMemoryAllocation),
                 fmt::format("{}: {}", function, cudaGetErrorString(status)));
}

void check(CUresult status, const char* function) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  if (driver().error_string == nullptr || driver().error_string(status, &text) != CUDA_SUCCESS)
    text = "unknown error";
  throw GpuError(trouble_after(status == CUDA_ERROR_OUT_OF_MEMORY),
                 fmt::format("{}: {}", function, text));
}

}  // namespace batchflow::gpu
