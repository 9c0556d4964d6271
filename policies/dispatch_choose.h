// What the simple dispatch policies share: the candidate that comes first in some order, with the
// need that arose earlier first among equals.
#pragma once

#include <cstddef>
#include <span>

#include "core/policy.h"

namespace batchflow {

// `before(a, b)`: a is served before b. `allowed(a)`: a may be served at all.
template <class Before, class Allowed>
std::size_t first_candidate(std::span<const WorkCandidate> candidates, Before before,
                            Allowed allowed) {
  std::size_t best = kNoChoice;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!allowed(candidates[i])) continue;
    if (best == kNoChoice || before(candidates[i], candidates[best]) ||
        (!before(candidates[best], candidates[i]) &&
         candidates[i].asked < candidates[best].asked)) {
      best = i;
    }
  }
  return best;
}

template <class Before>
std::size_t first_candidate(std::span<const WorkCandidate> candidates, Before before) {
  return first_candidate(candidates, before, [](const WorkCandidate&) { return true; });
}

// Who takes turns: whoever had the last one longest ago comes first.
inline bool had_turn_before(const WorkCandidate& a, const WorkCandidate& b) {
  return a.last_served < b.last_served;
}

}  // namespace batchflow
