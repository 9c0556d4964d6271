#include "runtime/gpu/staging_ring.h"

#include "core/base/check.h"

namespace batchflow::gpu {

struct StagingRing::Memory {
  std::shared_ptr<void> pinned;
  std::span<std::byte> bytes;
  Bytes slot_bytes = 0;
  std::uint32_t slots = 0;
  std::mutex mutex;
  std::vector<std::uint32_t> free;  // the next one at the end

  Memory(std::shared_ptr<void> keeper, std::span<std::byte> all, Bytes slot)
      : pinned(std::move(keeper)),
        bytes(all),
        slot_bytes(slot),
        slots(static_cast<std::uint32_t>(all.size() / slot)) {
    BF_CHECK(slots > 0);
    for (std::uint32_t i = slots; i > 0; --i) free.push_back(i - 1);
  }
};

StagingRing::StagingRing(Device& device, Bytes slot_bytes, std::uint32_t slots)
    : memory_([&] {
        const std::shared_ptr<std::byte> made = device.make_pinned(slot_bytes * slots);
        return std::make_shared<Memory>(made, std::span(made.get(), slot_bytes * slots),
                                        slot_bytes);
      }()) {}

StagingRing::StagingRing(Device& device, std::span<std::byte> memory, Bytes slot_bytes)
    : memory_(std::make_shared<Memory>(device.pin(memory), memory, slot_bytes)) {}

StagingRing::Slot StagingRing::take() {
  std::uint32_t index = 0;
  {
    const std::lock_guard lock(memory_->mutex);
    if (memory_->free.empty()) return nullptr;
    index = memory_->free.back();
    memory_->free.pop_back();
  }
  auto* slot =
      new std::span(memory_->bytes.subspan(index * memory_->slot_bytes, memory_->slot_bytes));
  return {slot, [memory = memory_, index](std::span<std::byte>* gone) {
            delete gone;
            const std::lock_guard lock(memory->mutex);
            memory->free.push_back(index);
          }};
}

std::uint32_t StagingRing::free() const {
  const std::lock_guard lock(memory_->mutex);
  return static_cast<std::uint32_t>(memory_->free.size());
}

std::uint32_t StagingRing::slots() const {
  return memory_->slots;
}

Bytes StagingRing::slot_bytes() const {
  return memory_->slot_bytes;
}

}  // namespace batchflow::gpu
