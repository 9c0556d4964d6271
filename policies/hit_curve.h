// How many look-ups of samples find them, by how much of a dataset is kept.
//
// Where one job reads a permutation an epoch, a tenth of the dataset that is kept serves a tenth of
// the look-ups. Where several jobs read it in orders of their own, what is kept can be what one of
// them comes to next: a tenth serves a third, and each further part serves less. The part that is
// found is then about the root of the part that is kept. It is less where orders tell less of what
// comes next, so the exponent is learned from what is found.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/base/rates.h"
#include "core/base/real_functions.h"
#include "core/base/types.h"

namespace batchflow::policies {

class HitCurve {
 public:
  // `exponent`: until something was learned.
  explicit HitCurve(double exponent = 1) : exponent_(exponent) {}

  // `kept`: the part of the dataset that is kept now. `found`: the part of look-ups that found
  // their sample of late. Nothing is learned from it while much comes in or leaves.
  void learn(Instant now, double kept, double found) {
    // What is found is a mean of the last seconds, so what is kept must be, too.
    const double fades = decay(std::max(now - seen_, Duration(0)), kOfLate);
    kept_ = seen_ == Instant{} ? kept : kept + (kept_ - kept) * fades;
    seen_ = now;
    if (kept_ < kLeast || kept_ > 1 - kLeast || found <= 0) return;
    if (std::abs(kept - kept_) > kSteady * kept_) return;
    const double exponent = std::clamp(log_of(found) / log_of(kept_), kRoot, 1.0);
    exponent_ = exponent + (exponent_ - exponent) * fades;
  }

  double exponent() const { return exponent_; }
  double found(double kept) const { return power(kept, exponent_); }

  // Of a number from 0 to 1; beyond these it is cut.
  static double power(double base, double exponent) {
    base = std::clamp(base, 0.0, 1.0);
    const bool is_same = exponent == 1 || base == 0 || base == 1;
    return is_same ? base : exp_of(exponent * log_of(base));
  }

 private:
  static constexpr Duration kOfLate = std::chrono::seconds(10);
  static constexpr double kLeast = 0.02;  // of the dataset; less says little
  static constexpr double kSteady = 0.2;
  static constexpr double kRoot = 0.5;

  double exponent_;
  double kept_ = 0;  // of late
  Instant seen_{};
};

}  // namespace batchflow::policies
