#include "runtime/service/backend/stalls.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"

namespace batchflow::service {

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, kStages> kNames = {"storage", "preparation", "delivery",
                                                            "room"};
  return kNames[static_cast<std::size_t>(stage)];
}

Duration StageTimes::sum() const {
  return std::accumulate(times_.begin(), times_.end(), Duration(0));
}

StageTimes& StageTimes::operator+=(const StageTimes& more) {
  for (std::size_t i = 0; i < kStages; ++i) times_[i] += more.times_[i];
  return *this;
}

StageTimes operator-(StageTimes from, const StageTimes& less) {
  for (std::size_t i = 0; i < kStages; ++i) from.times_[i] -= less.times_[i];
  return from;
}

StallBook::Way& StallBook::way(PipelineId pipeline) {
  if (pipeline.value >= ways_.size()) ways_.resize(pipeline.value + 1, Way{.moved = clock_()});
  return ways_[pipeline.value];
}

Stage StallBook::stage_of(const Way& way) const {
  if (way.shortages > 0) return Stage::room;
  if (way.gathering > 0) return Stage::delivery;
  if (way.preparing > 0) return Stage::preparation;
  if (way.reading > 0) return Stage::storage;
  return workers_ > 0 && preparing_ >= workers_ ? Stage::preparation : Stage::room;
}

void StallBook::settle(Way& way, Instant now) const {
  way.clocks[stage_of(way)] += now - way.moved;
  way.moved = now;
}

void StallBook::settle_reads(Instant now) {
  if (reads_ > 0) busy_ += now - reads_moved_;
  lasted_ += (now - reads_moved_) * reads_;
  reads_moved_ = now;
}

void StallBook::moved(PipelineId pipeline, int Way::*count, int change) {
  if (pipeline.is_none()) return;
  const Instant now = clock_();
  Way& one = way(pipeline);
  settle(one, now);
  one.*count += change;
  BF_CHECK(one.*count >= 0);
  if (count != &Way::reading) return;
  settle_reads(now);
  reads_ = static_cast<std::uint32_t>(static_cast<int>(reads_) + change);
}

// Whether all workers are busy concerns every pipeline.
void StallBook::change_busy(std::uint32_t preparing, std::uint32_t workers) {
  if ((preparing_ >= workers_) != (preparing >= workers)) {
    const Instant now = clock_();
    for (Way& one : ways_) settle(one, now);
  }
  preparing_ = preparing;
  workers_ = workers;
}

void StallBook::preparing(PipelineId pipeline, int change) {
  if (pipeline.is_none()) return;
  moved(pipeline, &Way::preparing, change);
  change_busy(static_cast<std::uint32_t>(static_cast<int>(preparing_) + change), workers_);
}

void StallBook::set_workers(std::uint32_t workers) {
  change_busy(preparing_, workers);
}

StallBook::Wait StallBook::begin(PipelineId pipeline) {
  const Instant now = clock_();
  Way& one = way(pipeline);
  settle(one, now);
  return {pipeline, now, one.clocks};
}

StageTimes StallBook::of(const Wait& wait) const {
  if (!wait.is_on()) return {};
  Way one = ways_[wait.pipeline.value];
  settle(one, clock_());
  return one.clocks - wait.began;
}

Duration StallBook::lasted(const Wait& wait) const {
  return wait.is_on() ? clock_() - wait.since : Duration(0);
}

Stage StallBook::stage(PipelineId pipeline) const {
  return pipeline.value < ways_.size() ? stage_of(ways_[pipeline.value]) : Stage::room;
}

Duration StallBook::storage_busy() const {
  return busy_ + (reads_ > 0 ? clock_() - reads_moved_ : Duration(0));
}

Duration StallBook::reads_lasted() const {
  return lasted_ + (clock_() - reads_moved_) * reads_;
}

}  // namespace batchflow::service
