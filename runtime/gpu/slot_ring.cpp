#include "runtime/gpu/slot_ring.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::gpu {

SlotRing::SlotRing(std::size_t slots, SlotEvents& events)
    : events_(events), states_(slots, State::free) {
  for (std::size_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
}

std::optional<std::size_t> SlotRing::take() {
  // Readers are in several streams, so a later one may be done first.
  std::erase_if(read_, [&](std::size_t slot) {
    if (!events_.has_happened(slot)) return false;
    states_[slot] = State::free;
    free_.push_back(slot);
    return true;
  });
  if (free_.empty()) return {};
  const std::size_t slot = free_.front();
  free_.pop_front();
  states_[slot] = State::held;
  ++held_;
  return slot;
}

void SlotRing::end_hold(std::size_t slot) {
  BF_CHECK(slot < states_.size() && states_[slot] == State::held);
  --held_;
}

void SlotRing::release(std::size_t slot, kernels::Stream reader) {
  end_hold(slot);
  states_[slot] = State::read;
  if (events_.record(slot, reader))
    read_.push_back(slot);
  else
    ++lost_;
}

void SlotRing::release_unread(std::size_t slot) {
  end_hold(slot);
  states_[slot] = State::free;
  free_.push_back(slot);
}

}  // namespace batchflow::gpu
