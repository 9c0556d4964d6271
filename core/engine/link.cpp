#include "core/engine/link.h"

#include <algorithm>

#include "core/base/seconds.h"

namespace batchflow::engine {

// In no time it would have gone at any speed.
void Link::carried(Instant since, Instant now, Bytes bytes) {
  if (now <= since) return;
  const auto amount = static_cast<double>(bytes);
  bytes_.add(now, amount);
  speeds_.add(now, amount * (amount / seconds(now - since)));
  last_ = now;
}

std::uint64_t Link::bytes_per_s(Instant now) const {
  constexpr double kMost = 1e18;  // below 2^63
  if (last_ == kNever || now - last_ > kKnownFor) return 0;
  const double mean = speeds_.at(now) / bytes_.at(now);
  return static_cast<std::uint64_t>(std::clamp(mean + 0.5, 1.0, kMost));
}

}  // namespace batchflow::engine
