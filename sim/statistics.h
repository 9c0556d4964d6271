// What several runs that differ by their seed say: a mean and how sure it is.
#pragma once

#include <cstddef>
#include <span>

namespace batchflow::sim {

struct Estimate {
  double mean = 0;
  double margin =
      0;  // the mean is within this of the truth, 95 times in 100; infinite for one value
  std::size_t count = 0;
};

// The 97.5 % quantile of Student's t, by degrees of freedom (not whole for Welch's): what a
// standard error is multiplied by for a 95 % interval. REQUIRES: freedom >= 1
double student_t(double freedom);

// Under the assumption that values vary normally.
Estimate estimate(std::span<const double> values);
// Of b - a where a[i] and b[i] belong together: the same seed, so the same chance.
Estimate paired_difference(std::span<const double> a, std::span<const double> b);
// Of b - a where they do not (Welch: their variances may differ).
Estimate difference(std::span<const double> a, std::span<const double> b);

// Whether zero is outside of the interval.
bool is_significant(const Estimate& difference);

}  // namespace batchflow::sim
