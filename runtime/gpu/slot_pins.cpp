#include "runtime/gpu/slot_pins.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace batchflow::gpu {

bool SlotPins::release(SlotId slot, ProcessId process) {
  const auto pinned = pins_.find(process);
  if (pinned == pins_.end()) return false;
  const auto pins = pinned->second.find(slot);
  if (pins == pinned->second.end()) return false;
  if (--pins->second == 0) pinned->second.erase(pins);
  if (pinned->second.empty()) pins_.erase(pinned);
  return true;
}

bool SlotPins::is_pinned(SlotId slot) const {
  return std::any_of(pins_.begin(), pins_.end(),
                     [slot](const auto& pinned) { return pinned.second.contains(slot); });
}

void SlotPins::forget(ProcessId process, protocol::Descriptor life) {
  if (pins_.contains(process)) ending_.insert_or_assign(process, std::move(life));
}

std::vector<SlotId> SlotPins::collect() {
  std::vector<SlotId> freed;
  for (auto process = ending_.begin(); process != ending_.end();) {
    pollfd life{process->second.get(), POLLIN, 0};
    if (poll(&life, 1, 0) <= 0) {
      ++process;
      continue;
    }
    const std::map<SlotId, std::uint32_t> slots = std::move(pins_[process->first]);
    pins_.erase(process->first);
    for (const auto& [slot, count] : slots)
      if (!is_pinned(slot)) freed.push_back(slot);
    process = ending_.erase(process);
  }
  return freed;
}

}  // namespace batchflow::gpu
