#include "runtime/gpu/held_slots.h"

#include <algorithm>
#include <utility>

namespace batchflow::gpu {

std::uint64_t HeldSlots::hold(std::shared_ptr<const DeviceMemory> memory, ReleaseQueue& queue,
                              std::function<void()> released) {
  const std::lock_guard lock(mutex_);
  held_.emplace(next_, Held{std::move(memory), &queue, std::move(released), {}});
  return next_++;
}

void HeldSlots::note_stream(std::uint64_t handle, void* stream) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(handle);
  if (held == held_.end()) return;
  auto& streams = held->second.streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void HeldSlots::release(std::uint64_t handle) {
  Held held;
  {
    const std::lock_guard lock(mutex_);
    auto node = held_.extract(handle);
    if (node.empty()) return;
    held = std::move(node.mapped());
  }
  held.queue->add(std::move(held.streams),
                  [memory = std::move(held.memory), released = std::move(held.released)] {
                    if (released) released();
                  });
}

std::size_t HeldSlots::count() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

}  // namespace batchflow::gpu
