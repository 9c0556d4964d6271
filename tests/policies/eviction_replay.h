// Replays generated traces through a share, for the tests of eviction policies.
#pragma once

#include <string>
#include <vector>

#include "core/engine/share.h"
#include "policies/registry.h"
#include "tests/policies/reference_caches.h"
#include "traces/access_trace.h"

namespace batchflow::test {

inline std::unique_ptr<engine::EvictionPolicy> make_policy(const engine::PolicyChoice& choice,
                                                           std::size_t items, Slots capacity,
                                                           std::uint64_t seed = 1) {
  return choice.make_eviction(items, capacity, Random(seed));
}

inline engine::ShareCounters replay(const traces::AccessTrace& trace, const std::string& policy,
                                    Slots capacity) {
  const engine::PolicyChoice choice =
      policies::policy_list().choose(engine::PolicyKind::eviction, policy);
  engine::Share share(trace.distinct_items(), capacity,
                      make_policy(choice, trace.distinct_items(), capacity));
  std::vector<ItemId> evicted;
  for (std::size_t i = 0; i < trace.requests(); ++i) {
    evicted.clear();
    share.access({ItemId(trace.items[i]), trace.size_of(i), trace.next_use(i)}, evicted);
  }
  return share.counters();
}

inline std::vector<Request> requests_of(const traces::AccessTrace& trace) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < trace.requests(); ++i) {
    requests.push_back({trace.items[i], trace.size_of(i), trace.next_use(i)});
  }
  return requests;
}

}  // namespace batchflow::test
