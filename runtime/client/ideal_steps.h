// Ideal steps: a loader gives the batch that it has given last again, for as many steps as its
// service says to all ranks alike. Nothing is waited for in them, so they show how fast the job
// would be with a perfect loader. They change no position, no count and no receipt: only the first
// time that the batch is given counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/client/batchflow.h"
#include "runtime/client/held_batches.h"
#include "runtime/protocol/records.h"

namespace batchflow::client {

class IdealSteps {
 public:
  using Clock = std::chrono::steady_clock;

  // The service has said that the batch which comes next is to be given `steps` times more.
  void announce(std::uint64_t steps) { announced_ = steps; }
  void forget_announced() { announced_ = 0; }
  bool is_announced() const { return announced_ > 0; }

  // That batch is given now, for the first time: `batch`, which lies in the slot.
  void begin(std::shared_ptr<const Slab> slab, std::shared_ptr<const KeptSlot> slot,
             const protocol::BatchRecord& record, const bf_batch& batch);
  bool is_on() const { return slot_ != nullptr; }
  bool are_all_given() const { return given_ == steps_; }
  // Whether the batch that was given last had been given before.
  bool is_again() const { return is_on() && given_ > 0; }
  const std::shared_ptr<const Slab>& slab() const { return slab_; }
  const std::shared_ptr<const KeptSlot>& slot() const { return slot_; }
  const protocol::BatchRecord& record() const { return record_; }
  const bf_batch& first() const { return first_; }
  // Counts the batch as given again; answers how many times it had been given.
  std::uint32_t count() { return static_cast<std::uint32_t>(++given_); }
  // The batch is on its way to the program.
  void returned(Clock::time_point now) {
    if (given_ == skipped()) measured_from_ = now;
  }
  // The program has come back after the last time: tells the service what the steps took.
  void report(Clock::time_point now) const;
  void end();

 private:
  // A program that runs ahead of a GPU is faster at first, until its queue is full.
  std::uint64_t skipped() const { return steps_ / 4; }

  std::uint64_t announced_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t given_ = 0;  // again
  Clock::time_point measured_from_{};
  std::shared_ptr<const Slab> slab_;
  std::shared_ptr<const KeptSlot> slot_;
  protocol::BatchRecord record_;
  bf_batch first_{};
};

}  // namespace batchflow::client
