#include "runtime/client/ideal_steps.h"

#include <algorithm>

namespace batchflow::client {

void IdealSteps::begin(std::shared_ptr<const Slab> slab, std::shared_ptr<const KeptSlot> slot,
                       const protocol::BatchRecord& record, const bf_batch& batch) {
  steps_ = std::exchange(announced_, 0);
  given_ = 0;
  slab_ = std::move(slab);
  slot_ = std::move(slot);
  record_ = record;
  first_ = batch;
}

void IdealSteps::report(Clock::time_point now) const {
  const std::chrono::nanoseconds took = now - measured_from_;
  slot_->link().ideal(steps_ - skipped(),
                      static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0)));
}

void IdealSteps::end() {
  slab_.reset();
  slot_.reset();
  steps_ = given_ = 0;
}

}  // namespace batchflow::client
