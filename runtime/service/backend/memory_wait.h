// How long blocks and batches have waited for memory: until a slab is unmapped or a slot is free,
// or the machine has pages again. The parts that own them ask here whether they still may wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/types.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/stalls.h"

namespace batchflow::service {

class MemoryWait {
 public:
  using Clock = std::chrono::steady_clock;

  explicit MemoryWait(const BackendContext& context) : context_(context) {}
  MemoryWait(const MemoryWait&) = delete;

  // A block or a piece of a batch of the pipeline waits, as long as this lives.
  class Waiter {
   public:
    Waiter(MemoryWait& wait, PipelineId pipeline)
        : wait_(&wait), shortage_(wait.context_.stalls, pipeline) {
      ++wait.waiters_;
    }
    Waiter(Waiter&& from) noexcept
        : wait_(std::exchange(from.wait_, nullptr)), shortage_(std::move(from.shortage_)) {}
    Waiter& operator=(Waiter&& from) noexcept {
      std::swap(wait_, from.wait_);
      std::swap(shortage_, from.shortage_);
      return *this;
    }
    ~Waiter() {
      if (wait_) --wait_->waiters_;
    }

   private:
    MemoryWait* wait_;
    StallBook::Shortage shortage_;
  };

  // A block or a piece of a batch has got no memory.
  void note_short();
  // One has got some.
  void note_progress() { since_ = Clock::now(); }
  // All that waits is tried again.
  void note_retry(Clock::time_point now) { last_ = now; }
  // Since when nothing that waits has got any memory.
  Clock::time_point since() const { return since_; }
  // True: what has waited since then has waited for too long, and is given up. Before that it tells
  // people why it waits.
  bool is_over(Clock::time_point since, Clock::time_point now);
  bool is_over_for_all() const;
  std::string why_given_up(std::string_view what) const;

  std::size_t waiters() const { return waiters_; }
  std::uint64_t times_short() const { return times_short_; }

 private:
  void say();

  const BackendContext& context_;
  std::size_t waiters_ = 0;
  std::uint64_t times_short_ = 0;
  Clock::time_point since_, last_;  // when something last waited
  Clock::time_point say_after_;
};

}  // namespace batchflow::service
