// How long a rank waits for batches, and how long it computes. The two are always kept apart.
#pragma once

#include <cstdint>

#include "core/base/rates.h"
#include "core/base/types.h"

namespace batchflow::engine {

// The time of one rank. The rank stalls while it has asked for a batch and holds none that is
// delivered and not yet consumed. Its compute time is what it reports with each batch consumed.
// Time that is neither, because it has asked for nothing, is in no figure.
class StallMeter {
 public:
  void wanted(Instant now, std::uint32_t batches);
  void delivered(Instant now);
  void consumed(Instant now, Duration compute);

  bool stalling() const { return asked_ > 0 && held_ == 0; }
  // Since the present stall began; 0 when there is none.
  Duration stalling_for(Instant now) const;
  // All stalls up to `now`, the present one included.
  Duration stall(Instant now) const;
  Duration compute() const { return compute_; }
  std::uint64_t stalls() const { return stalls_; }
  // Stall / (stall + compute); 0 before there is either.
  double stall_fraction(Instant now) const;
  // The part of its time that it stalled, of late.
  double recently(Instant now) const { return stalled_.at(now); }

 private:
  void arrived(Instant now);
  void settle(Instant now, bool was_stalling);

  std::uint64_t asked_ = 0;  // and not delivered
  std::uint64_t held_ = 0;   // delivered and not consumed
  std::uint64_t early_ = 0;  // consumed before their delivery was reported
  Instant since_{};          // of the present stall
  Duration stall_{0};
  Duration compute_{0};
  std::uint64_t stalls_ = 0;
  HeldMean stalled_;  // 1 while it stalls
};

}  // namespace batchflow::engine
