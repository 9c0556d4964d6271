#include "runtime/service/backend/stalls.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"

namespace batchflow::service {

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, kStages> kNames = {"storage", "preparation", "delivery",
                                                            "room", "records"};
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

StallBook::BlockProgress& StallBook::progress(PipelineId pipeline) {
  if (pipeline.value >= progress_.size())
    progress_.resize(pipeline.value + 1, BlockProgress{.moved = clock_()});
  return progress_[pipeline.value];
}

Stage StallBook::stage_of(const BlockProgress& progress) const {
  if (progress.shortages > 0) return Stage::room;
  if (progress.gathering > 0) return Stage::delivery;
  if (progress.preparing > 0) return Stage::preparation;
  if (progress.reading > 0) return Stage::storage;
  return workers_ > 0 && preparing_ >= workers_ ? Stage::preparation : Stage::records;
}

void StallBook::settle(BlockProgress& progress, Instant now) const {
  progress.clocks[stage_of(progress)] += now - progress.moved;
  progress.moved = now;
}

void StallBook::settle_reads(Instant now) {
  if (reads_ > 0) busy_ += now - reads_moved_;
  lasted_ += (now - reads_moved_) * reads_;
  reads_moved_ = now;
}

void StallBook::moved(PipelineId pipeline, int BlockProgress::*count, int change) {
  if (pipeline.is_none()) return;
  const Instant now = clock_();
  BlockProgress& one = progress(pipeline);
  settle(one, now);
  one.*count += change;
  BF_CHECK(one.*count >= 0);
  if (count != &BlockProgress::reading) return;
  settle_reads(now);
  reads_ = static_cast<std::uint32_t>(static_cast<int>(reads_) + change);
}

// Whether all workers are busy concerns every pipeline.
void StallBook::change_busy(std::uint32_t preparing, std::uint32_t workers) {
  if ((preparing_ >= workers_) != (preparing >= workers)) {
    const Instant now = clock_();
    for (BlockProgress& one : progress_) settle(one, now);
  }
  preparing_ = preparing;
  workers_ = workers;
}

void StallBook::preparing(PipelineId pipeline, int change) {
  if (pipeline.is_none()) return;
  moved(pipeline, &BlockProgress::preparing, change);
  change_busy(static_cast<std::uint32_t>(static_cast<int>(preparing_) + change), workers_);
}

void StallBook::set_workers(std::uint32_t workers) {
  change_busy(preparing_, workers);
}

StallBook::Wait StallBook::begin(PipelineId pipeline, bool for_records) {
  const Instant now = clock_();
  BlockProgress& one = progress(pipeline);
  settle(one, now);
  return {pipeline, now, one.clocks, for_records};
}

StageTimes StallBook::times_of(const Wait& wait) const {
  if (!wait.is_on()) return {};
  BlockProgress one = progress_[wait.pipeline.value];
  settle(one, clock_());
  StageTimes times = one.clocks - wait.began;
  if (!wait.for_records) times[Stage::room] += std::exchange(times[Stage::records], Duration(0));
  return times;
}

Duration StallBook::lasted(const Wait& wait) const {
  return wait.is_on() ? clock_() - wait.since : Duration(0);
}

Stage StallBook::stage(PipelineId pipeline, bool for_records) const {
  const Stage reached =
      pipeline.value < progress_.size() ? stage_of(progress_[pipeline.value]) : Stage::records;
  return reached == Stage::records && !for_records ? Stage::room : reached;
}

Duration StallBook::storage_busy() const {
  return busy_ + (reads_ > 0 ? clock_() - reads_moved_ : Duration(0));
}

Duration StallBook::reads_lasted() const {
  return lasted_ + (clock_() - reads_moved_) * reads_;
}

}  // namespace batchflow::service
