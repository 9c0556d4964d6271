#include "sim/replay.h"

#include <algorithm>

#include "core/engine/share.h"

namespace batchflow::sim {
namespace {

constexpr std::size_t kRequestsPerReport = std::size_t{1} << 16;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The loop itself, compiled once for each way of knowing a size.
template <class SizeOf>
void replay_range(engine::Share& share, const traces::AccessTrace& trace, std::size_t begin,
                  std::size_t end, SizeOf size_of, std::vector<ItemId>& evicted) {
  for (std::size_t i = begin; i < end; ++i) {
    evicted.clear();
    share.access({ItemId(trace.items[i]), size_of(i), trace.next_use(i)}, evicted);
  }
}

}  // namespace

double ReplayCounts::miss_ratio() const {
  return ratio(misses, requests);
}
double ReplayCounts::byte_miss_ratio() const {
  return ratio(bytes_missed, bytes_requested);
}

ReplayCounts replay_through_share(const traces::AccessTrace& trace,
                                  const engine::PolicyChoice& policy, Bytes capacity,
                                  const AccessReplayOptions& options) {
  const engine::EvictionContext context{trace.distinct_items(), capacity,
                                        trace_policy_random(options.seed), policy.parameters};
  engine::Share share(trace.distinct_items(), capacity,
                      std::get<engine::MakeEviction>(policy.entry->make)(context));
  std::vector<ItemId> evicted;
  for (std::size_t begin = 0; begin < trace.requests();) {
    const std::size_t end = std::min(begin + kRequestsPerReport, trace.requests());
    if (trace.one_size != 0) {
      replay_range(
          share, trace, begin, end, [&](std::size_t) { return trace.one_size; }, evicted);
    } else {
      replay_range(
          share, trace, begin, end, [&](std::size_t i) { return trace.size_of(i); }, evicted);
    }
    if (options.progress) options.progress(end - begin);
    begin = end;
  }
  const engine::ShareCounters& counted = share.counters();
  return {counted.hits + counted.misses, counted.misses,    counted.slots_requested,
          counted.slots_missed,          counted.evictions, counted.refused};
}

}  // namespace batchflow::sim
