// How long ranks waited for each of their batches, in the buckets of a Prometheus histogram.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::service {

struct WaitHistogram {
  // Upper bounds, from a batch that is there to a time-out; there is one more bucket beyond the
  // last.
  static constexpr std::array<Duration, 9> kBounds = {
      std::chrono::milliseconds(1),   std::chrono::milliseconds(5),   std::chrono::milliseconds(20),
      std::chrono::milliseconds(100), std::chrono::milliseconds(500), std::chrono::seconds(2),
      std::chrono::seconds(10),       std::chrono::seconds(60),       std::chrono::seconds(300)};

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // not cumulative
  Duration sum{0};

  void add(Duration wait) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), wait);
    ++counts[static_cast<std::size_t>(bucket - kBounds.begin())];
    sum += wait;
  }
};

}  // namespace batchflow::service
