// The common part of the simple dispatch policies: it chooses the candidate that comes first in
// some order; among equals the need that arose earlier.
#pragma once

#include <cstddef>
#include <span>

#include "core/engine/policy.h"

namespace batchflow::policies {

// `before(a, b)`: a is served before b. `allowed(a)`: a may be served at all.
template <class Before, class Allowed>
std::size_t first_candidate(std::span<const engine::WorkCandidate> candidates, Before before,
                            Allowed allowed) {
  std::size_t best = engine::kNoChoice;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!allowed(candidates[i])) continue;
    if (best == engine::kNoChoice || before(candidates[i], candidates[best]) ||
        (!before(candidates[best], candidates[i]) &&
         candidates[i].asked < candidates[best].asked)) {
      best = i;
    }
  }
  return best;
}

template <class Before>
std::size_t first_candidate(std::span<const engine::WorkCandidate> candidates, Before before) {
  return first_candidate(candidates, before, [](const engine::WorkCandidate&) { return true; });
}

// Whether a had its last turn before b: the job with the oldest turn comes first.
inline bool had_turn_before(const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
  return a.last_served < b.last_served;
}

}  // namespace batchflow::policies
