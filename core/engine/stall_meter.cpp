#include "core/engine/stall_meter.h"

#include <algorithm>

#include "core/base/saturating.h"

namespace batchflow::engine {

void StallMeter::settle(Instant now, bool was_stalling) {
  if (was_stalling && !stalling()) stall_ += now - since_;
  if (!was_stalling && stalling()) {
    since_ = now;
    ++stalls_;
  }
  if (was_stalling != stalling()) stalled_.set(now, stalling() ? 1 : 0);
}

void StallMeter::wanted(Instant now, std::uint32_t batches) {
  const bool was_stalling = stalling();
  asked_ += batches;
  settle(now, was_stalling);
}

void StallMeter::delivered(Instant now) {
  if (early_ > 0) {
    --early_;
  } else {
    arrived(now);
  }
}

void StallMeter::arrived(Instant now) {
  const bool was_stalling = stalling();
  if (asked_ > 0) --asked_;
  ++held_;
  settle(now, was_stalling);
}

void StallMeter::consumed(Instant now, Duration compute) {
  compute_ = saturating_sum(compute_, std::max(compute, Duration(0)));
  if (held_ == 0) {
    arrived(now);
    ++early_;
  }
  const bool was_stalling = stalling();
  --held_;
  settle(now, was_stalling);
}

Duration StallMeter::stalling_for(Instant now) const {
  return stalling() ? now - since_ : Duration(0);
}

Duration StallMeter::stall(Instant now) const {
  return stall_ + stalling_for(now);
}

double StallMeter::stall_fraction(Instant now) const {
  const auto stalled = static_cast<double>(stall(now).count());
  const double all = stalled + static_cast<double>(compute_.count());
  return all > 0 ? stalled / all : 0;
}

}  // namespace batchflow::engine
