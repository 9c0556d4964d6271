#include "core/engine/growing_sources.h"

#include <algorithm>
#include <utility>

namespace batchflow::engine {

void GrowingSources::grew(const SourceGrew& event) {
  const DatasetIndex known = s_.dataset_of.find(event.dataset);
  if (known.is_none()) return s_.protocol_error();
  Dataset& dataset = datasets_[known];
  const bool is_new = !dataset.source;
  const GrowingSource before = dataset.source.value_or(GrowingSource());
  if (event.first > event.end || event.end > dataset.catalogue->samples() ||
      event.end > order::kLiveRecordsMost || event.first < before.first || event.end < before.end ||
      (before.ended && (!event.ended || event.end > before.end)) ||
      (is_new && !dataset.streams.empty())) {
    return s_.protocol_error();
  }
  if (is_new) {
    growing_.push_back(known);
    dataset.source.emplace();
    dataset.source->paced.dataset = dataset.id;
    dataset.source->paced.needed_from = event.first;
    dataset.source->paced.taken_part = taken_part(0, 1);
  }
  GrowingSource& source = *dataset.source;
  source.first = event.first;
  source.end = event.end;
  source.kept = event.kept;
  source.kept_most = event.kept_most;
  source.ended = event.ended;
  for (const StreamId stream : dataset.streams) {
    for (const JobIndex job : s_.streams[stream].jobs) s_.look_at(job);
  }
}

// Jobs may fill steps with the last records that they have had, so they need these, too. Without
// jobs it is not known what others will begin with.
std::uint64_t GrowingSources::needed_from(const Dataset& dataset) const {
  const GrowingSource& source = *dataset.source;
  std::uint64_t from = source.end;
  bool any = false;
  for (const StreamId stream : dataset.streams) {
    for (const JobIndex index : s_.streams[stream].jobs) {
      const Job& job = s_.jobs[index];
      if (job.keyed) continue;  // it takes what is there
      const std::uint64_t next = job.committed.next_record();
      from = std::min(from, next - std::min(next, job.fills_from));
      any = true;
    }
  }
  return any ? std::max(from, source.first) : source.first;
}

std::vector<order::ReservoirName> reservoirs_of(const EngineState& state, const Dataset& dataset) {
  std::vector<order::ReservoirName> all;
  for (const StreamId stream : dataset.streams) {
    for (const JobIndex index : state.streams[stream].jobs) {
      const Job& job = state.jobs[index];
      const order::Position::Fields& at = job.committed.fields();
      if (job.reservoir > 0) all.push_back({at.seed, at.first, job.reservoir});
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void GrowingSources::pace() {
  for (const DatasetIndex index : growing_) {
    GrowingSource& source = *datasets_[index].source;
    SourcePaced next = source.paced;
    const Bytes most = source.kept_most;
    if (source.kept > most / 2) next.needed_from = needed_from(datasets_[index]);
    if (source.kept >= most - most / 4) next.waits = true;
    if (source.kept <= most / 2 + most / 8) next.waits = false;
    next.taken_part = taken_part(source.kept, most);
    std::vector<order::ReservoirName> reservoirs = reservoirs_of(s_, datasets_[index]);
    if (next.needed_from == source.paced.needed_from && next.waits == source.paced.waits &&
        next.taken_part == source.paced.taken_part && reservoirs == source.reservoirs) {
      continue;
    }
    source.paced = next;
    source.reservoirs = std::move(reservoirs);
    next.reservoirs = s_.arena.copy(source.reservoirs);
    s_.emit(SourcePaced(next));
  }
}

}  // namespace batchflow::engine
