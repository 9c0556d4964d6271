// Sends a trace of items of one size through a share that holds a tenth of them.
#pragma once

#include <vector>

#include "core/engine/policy_list.h"
#include "core/engine/share.h"
#include "traces/access_trace.h"

namespace batchflow::bench {

inline std::uint64_t misses_of(const engine::PolicyChoice& choice,
                               const traces::AccessTrace& trace) {
  const Slots capacity = trace.distinct_items() / 10;
  engine::Share share(trace.distinct_items(), capacity,
                      choice.make_eviction(trace.distinct_items(), capacity, Random(1)));
  std::vector<ItemId> evicted;
  for (std::size_t i = 0; i < trace.requests(); ++i) {
    evicted.clear();
    share.access({ItemId(trace.items[i]), 1, trace.next_use(i)}, evicted);
  }
  return share.counters().misses;
}

}  // namespace batchflow::bench
