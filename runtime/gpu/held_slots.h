// In a job's process: the slots that it holds, by handle. A handle that is released twice, or that
// was never given, is ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/gpu/release_queue.h"

namespace batchflow::gpu {

class HeldSlots {
 public:
  // `memory` stays until the slot's `released` was called, or for ever on a lost device. The queue
  // must outlive the slot.
  std::uint64_t hold(std::shared_ptr<const DeviceMemory> memory, ReleaseQueue& queue,
                     std::function<void()> released);
  // The slot is read by work on this stream.
  void note_stream(std::uint64_t handle, void* stream);
  void release(std::uint64_t handle);
  std::size_t count() const;

 private:
  struct Held {
    std::shared_ptr<const DeviceMemory> memory;
    ReleaseQueue* queue = nullptr;
    std::function<void()> released;
    std::vector<void*> streams;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Held> held_;
  std::uint64_t next_ = 1;
};

}  // namespace batchflow::gpu
