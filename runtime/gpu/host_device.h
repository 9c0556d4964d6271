// The host in place of a GPU: for tests, and for machines without one. "Device" memory is a memory
// file, and a copy happens only when its end is asked for: as late as a GPU may make it.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

class HostDevice final : public Device {
 public:
  explicit HostDevice(Bytes memory_bytes = Bytes{1} << 30);

  // From now on all calls throw, as they do when a GPU has fallen off its bus.
  void lose() { state_->lost = true; }
  // While it is held, nothing that was given to the device gets done.
  void hold(bool held) { state_->held = held; }

  const DeviceFacts& facts() const override { return facts_; }
  int dlpack_kind() const override { return 1; }
  std::shared_ptr<std::byte> make_pinned(Bytes bytes) override;
  std::shared_ptr<void> pin(std::span<std::byte> memory) override;
  std::unique_ptr<CopyLane> make_lane(Direction direction) override;
  std::unique_ptr<DeviceMemory> make_memory(Bytes bytes) override;
  std::unique_ptr<DeviceMemory> import_memory(protocol::Descriptor descriptor,
                                              Bytes bytes) override;
  std::unique_ptr<Fence> make_fence(std::span<void* const> streams) override;
  void order_after(void* stream, const Fence& fence) override;

  struct State {
    std::atomic<bool> lost{false};  // as a GPU that has failed
    std::atomic<bool> held{false};  // nothing that was queued goes on
    std::atomic<Bytes> free_bytes{0};

    void check() const;
  };

 private:
  const std::shared_ptr<State> state_;
  DeviceFacts facts_;
};

}  // namespace batchflow::gpu
