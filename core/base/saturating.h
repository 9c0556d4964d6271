// Sums and products that stop at the greatest value instead of wrapping around. A number from
// outside may have any value, and too large a need must not look like a small one.
#pragma once

#include <algorithm>

#include "core/base/types.h"

namespace batchflow {

constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
constexpr std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

// `at + wait`, or kNever where that is later than any time. REQUIRES: wait >= 0
constexpr Instant after(Instant at, Duration wait) {
  return wait > kNever - std::max(at, Instant()) ? kNever : at + wait;
}
// REQUIRES: both >= 0
constexpr Duration saturating_sum(Duration a, Duration b) {
  return b > Duration::max() - a ? Duration::max() : a + b;
}

}  // namespace batchflow
