// The common part of the simple dispatch policies: it chooses the candidate that comes first in
// some order; among equals the need that arose earlier.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "core/base/saturating.h"
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

// The candidate with the least slack, by weight.
//
// Slack is the time until a job is expected to need its block, and the time that it may then wait
// without harm (its latency target). A job of twice the weight is served as if it had half the
// slack, and once that is over, as if it had waited twice as long. The wait of a job grows until it
// is served, so no job starves.
inline std::size_t least_slack(const engine::DispatchView& view) {
  const auto weighted_slack = [&](const engine::WorkCandidate& candidate) {
    const Instant latest = after(candidate.deadline, candidate.latency_target);
    const double slack = std::chrono::duration<double>(latest - view.now).count();
    return slack > 0 ? slack / candidate.weight : slack * candidate.weight;
  };
  return first_candidate(view.candidates,
                         [&](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                           return weighted_slack(a) < weighted_slack(b);
                         });
}

}  // namespace batchflow::policies
