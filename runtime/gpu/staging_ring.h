// A ring of pinned slots, from which a device is copied to or into which it copies.
//
// The number of slots is the bound of pinned memory. A slot is used again when the last owner of it
// is gone; a copy owns its slot (Copy::keeper) until the device has confirmed its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

class StagingRing {
 public:
  // Allocates the memory. Throws GpuError. REQUIRES: slot_bytes > 0, slots > 0
  StagingRing(Device& device, Bytes slot_bytes, std::uint32_t slots);
  // Pins memory that is there, which must stay while the ring or a slot is there.
  StagingRing(Device& device, std::span<std::byte> memory, Bytes slot_bytes);

  using Slot = std::shared_ptr<std::span<std::byte>>;
  // Null: all slots are taken.
  Slot take();
  std::uint32_t free() const;
  std::uint32_t slots() const;
  Bytes slot_bytes() const;

 private:
  struct Memory;
  const std::shared_ptr<Memory> memory_;  // slots keep it, so they may outlive the ring
};

}  // namespace batchflow::gpu
