// Smoothed rates and means of what happens at irregular instants.
//
// After each half-life, what happened counts for half. Time is integer, and the decay is computed
// with additions and multiplications alone, so that the same events give the same bits on every
// machine. These figures reach policies, and a replay must repeat their decisions.
#pragma once

#include <cstdint>

#include "core/base/types.h"

namespace batchflow {

// 2^(-elapsed / half_life), relative error below 1e-9. REQUIRES: elapsed >= 0, half_life > 0
double decay(Duration elapsed, Duration half_life);

// A sum of terms that fade.
class FadingSum {
 public:
  explicit FadingSum(Duration half_life) : half_life_(half_life) {}
  void add(Instant now, double amount);
  double at(Instant now) const;  // a `now` before the last term counts as the time of that term
  Duration half_life() const { return half_life_; }

 private:
  Duration half_life_;
  Instant last_{};
  double sum_ = 0;
};

// How much happens a second: bytes, requests, blocks. It is right from the first half-life on,
// since the time before the first value does not count as silence.
class SmoothedRate {
 public:
  explicit SmoothedRate(Duration half_life = std::chrono::seconds(10)) : sum_(half_life) {}
  void add(Instant now, double amount = 1);
  double per_second(Instant now) const;

 private:
  FadingSum sum_;
  Instant begin_ = kNever;
};

// The mean over time of a value that holds until it changes; the recent past counts more. Time
// before the first value does not count.
class HeldMean {
 public:
  explicit HeldMean(Duration half_life = std::chrono::seconds(10)) : half_life_(half_life) {}
  // It is `value` from `now` on.
  void set(Instant now, double value);
  // It was `value` from `since`, or from the last call if that was later, until `now`.
  void was(Instant since, Instant now, double value);
  double at(Instant now) const;  // 0 before the first value
  double value() const { return value_; }

 private:
  double sum_at(Instant now) const;

  Duration half_life_;
  Instant begin_ = kNever;
  Instant last_{};
  double sum_ = 0;  // up to `last_`
  double value_ = 0;
};

}  // namespace batchflow
