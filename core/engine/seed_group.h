// S of the order rules: what jobs that may share an order have in common.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/engine/event.h"
#include "core/order/keys.h"

namespace batchflow::engine {

// Where streams are not shared, a weighted job has a seed of its own, and a relaxed job generations
// of its own (core/order/generation_numbers.h). `bundle_shift` is that of the dataset. `chosen`: a
// policy chooses the job's samples.
constexpr std::uint64_t seed_group_of(const JobJoined& event, std::uint8_t bundle_shift,
                                      bool share_streams = true, bool chosen = false) {
  const bool any = event.order == Order::strict || event.order == Order::sequential ||
                   event.order == Order::mixed || event.order == Order::live;
  const bool own = event.order == Order::weighted && !share_streams;
  const std::uint64_t seed = event.has_shuffle_seed ? hash(1, event.shuffle_seed)
                             : any                  ? 0
                             : own                  ? hash(3, event.user, event.job.value)
                                                    : hash(2, event.user);
  if (chosen) return order::chosen_seed(seed, event.job.value);
  return event.runs ? order::runs_seed(seed, bundle_shift) : seed;
}

}  // namespace batchflow::engine
