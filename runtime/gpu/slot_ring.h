// Slots of GPU memory that are written again and again, and when each may be.
//
// A stream's order is not enough: on some GPUs the decoder engines begin to write before the work
// that stands ahead of them in the stream has ended. So a slot is given out again only once the
// host itself has seen the event after its last reader.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/where.h"

namespace batchflow::gpu {

// One event for each slot. Of CUDA: cuda_slot_events() in runtime/gpu/cuda_slot_events.h.
class SlotEvents {
 public:
  virtual ~SlotEvents() = default;
  // The slot's event happens after all that the stream has been given. False: it cannot be known.
  virtual bool record(std::size_t slot, kernels::Stream stream) = 0;
  // Whether the host sees that it has happened. Does not wait.
  virtual bool has_happened(std::size_t slot) = 0;
};

// For one thread.
class SlotRing {
 public:
  SlotRing(std::size_t slots, SlotEvents& events);

  // A slot that nothing reads; empty while each is held or read.
  std::optional<std::size_t> take();
  // The holder is done with the slot, and what reads it has been given to this stream. When that
  // cannot be recorded, the slot is never given out again.
  // REQUIRES: the slot is held
  void release(std::size_t slot, kernels::Stream reader);
  // No device work reads it.
  void release_unread(std::size_t slot);

  std::size_t held() const { return held_; }
  std::size_t lost() const { return lost_; }

 private:
  enum class State { free, held, read };
  void end_hold(std::size_t slot);

  SlotEvents& events_;
  std::vector<State> states_;
  std::deque<std::size_t> free_, read_;  // the oldest first
  std::size_t held_ = 0, lost_ = 0;
};

}  // namespace batchflow::gpu
