// S of the order rules: what jobs that may share an order have in common.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/engine/event.h"

namespace batchflow::engine {

// Where streams are not shared, no job has to agree with others: a relaxed job has a seed of its
// own.
constexpr std::uint64_t seed_group_of(const JobJoined& event, bool share_streams = true) {
  if (event.has_shuffle_seed) return hash(1, event.shuffle_seed);
  if (event.order == Order::strict || event.order == Order::sequential) return 0;
  return share_streams ? hash(2, event.user) : hash(3, event.user, event.job.value);
}

}  // namespace batchflow::engine
