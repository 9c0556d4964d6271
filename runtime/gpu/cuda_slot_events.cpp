#include "runtime/gpu/cuda_slot_events.h"

#include <cuda_runtime_api.h>

namespace batchflow::gpu {
namespace {

class CudaSlotEvents final : public SlotEvents {
 public:
  ~CudaSlotEvents() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  bool open(std::size_t slots) {
    for (std::size_t i = 0; i < slots; ++i) {
      cudaEvent_t event = nullptr;
      if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) return false;
      events_.push_back(event);
    }
    return true;
  }

  bool record(std::size_t slot, kernels::Stream stream) override {
    return cudaEventRecord(events_[slot], static_cast<cudaStream_t>(stream)) == cudaSuccess;
  }
  bool has_happened(std::size_t slot) override {
    const cudaError_t status = cudaEventQuery(events_[slot]);
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status == cudaSuccess;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace

std::unique_ptr<SlotEvents> cuda_slot_events(std::size_t slots) {
  auto events = std::make_unique<CudaSlotEvents>();
  if (events->open(slots)) return events;
  (void)cudaGetLastError();
  return nullptr;
}

}  // namespace batchflow::gpu
