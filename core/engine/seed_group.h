// S of the order rules: what jobs that may share an order have in common.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/engine/event.h"
#include "core/order/keys.h"

namespace batchflow::engine {

// Where streams are not shared, no job has to agree with others: a relaxed job has a seed of its
// own. `bundle_shift` is that of the dataset. `chosen`: a policy chooses the job's samples.
constexpr std::uint64_t seed_group_of(const JobJoined& event, std::uint8_t bundle_shift,
                                      bool share_streams = true, bool chosen = false) {
  const bool any = event.order == Order::strict || event.order == Order::sequential;
  const std::uint64_t seed = event.has_shuffle_seed ? hash(1, event.shuffle_seed)
                             : any                  ? 0
                             : share_streams        ? hash(2, event.user)
                                                    : hash(3, event.user, event.job.value);
  if (chosen) return order::chosen_seed(seed, event.job.value);
  return event.runs ? order::runs_seed(seed, bundle_shift) : seed;
}

}  // namespace batchflow::engine
