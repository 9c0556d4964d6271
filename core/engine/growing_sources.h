// Datasets that grow: what has come, and how each source is to go on.
//
// A log keeps the records. Once it is half full, it may drop records that no job needs. From three
// quarters on, producers that can wait do so until it is down to five eighths. Of the other
// producers' records it takes fewer and fewer, and none when it is full.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/engine/state.h"
#include "core/order/rehearsal.h"

namespace batchflow::engine {

class GrowingSources {
 public:
  explicit GrowingSources(EngineState& state)
      : s_(state), datasets_(state.datasets.writable_for(this)) {}

  void grew(const SourceGrew& event);
  // Says how sources are to go on, as far as that has changed.
  void pace();

 private:
  std::uint64_t needed_from(const Dataset& dataset) const;

  EngineState& s_;
  IndexedVector<Dataset, DatasetIndex>& datasets_;
  std::vector<DatasetIndex> growing_;
};

// Of the jobs that the source has now, each once.
std::vector<order::ReservoirName> reservoirs_of(const EngineState& state, const Dataset& dataset);

// How many records of the largest size a part of a log has room for: 64 bytes stand beside each.
constexpr std::uint64_t records_in(Bytes part, Bytes record_bytes) {
  return part / (record_bytes + 64);
}
// From how many of its last records a job may fill steps. They take a quarter of the log, which can
// never drop them. So the log always has room for more.
constexpr std::uint64_t window_most(Bytes kept_most, Bytes record_bytes) {
  return std::max<std::uint64_t>(1, records_in(kept_most / 4, record_bytes));
}
// How many exemplars all reservoirs of a source may have together, in a quarter of the log's bytes
// beside it.
constexpr std::uint64_t exemplars_most(Bytes kept_most, Bytes record_bytes) {
  return std::min<std::uint64_t>(order::kExemplarsMost, window_most(kept_most, record_bytes));
}

// The part of 2^32 that is taken of records of producers that cannot wait.
constexpr std::uint64_t taken_part(Bytes kept, Bytes kept_most) {
  constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  const Bytes from = kept_most - kept_most / 4;
  if (kept <= from) return kWhole;
  if (kept >= kept_most) return 0;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(kept_most - kept) * kWhole /
                                    (kept_most - from));
}

}  // namespace batchflow::engine
