#include "sim/world/job.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sim/world/buffer_contents.h"

namespace batchflow::world {

namespace {

// A job that waits for less than this share of its time is bounded by its GPUs.
constexpr double kWaitsLeast = 0.02;

std::string bottleneck(const output::JobResult& job) {
  if (std::max(job.stall_s, job.idle_s) <= kWaitsLeast * job.time_s) return "gpu";
  if (job.idle_s > job.stall_s) return "ranks";
  const output::Waits& waited = job.waited;
  const std::pair<double, const char*> causes[] = {{waited.storage_s, "storage"},
                                                   {waited.drive_s, "drive"},
                                                   {waited.network_s, "network"},
                                                   {waited.cores_s, "cores"},
                                                   {waited.preparation_s, "preparation"},
                                                   {waited.delivery_s, "delivery"},
                                                   {waited.other_s, "other"}};
  return std::max_element(std::begin(causes), std::end(causes),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

TotalTime Job::of_gpus(Duration of_one_rank) const {
  if (nodes.size() == gpus.size()) return of_one_rank;
  return TotalTime(of_one_rank) * static_cast<double>(gpus.size()) /
         static_cast<double>(nodes.size());
}

namespace {

output::BufferResult buffer_of(std::span<const engine::Exemplar> exemplars, std::uint64_t shown) {
  BufferContents contents(shown);
  for (const engine::Exemplar& one : exemplars) contents.add(one.label, one.since);
  return contents.result();
}

}  // namespace

void Job::finish_result(Instant now, const output::Waits& waited) const {
  if (state != State::over && state != State::running && state != State::down &&
      state != State::restoring && state != State::preempted)
    return;
  output::JobResult& out = *result;
  const Instant end = state == State::over ? ended : now;
  const auto count =
      static_cast<double>(gpus.size());  // each is a rank, though fewer may be served
  out.started_s = seconds(started);
  out.ended_s = seconds(end);
  out.time_s = seconds(end - started);
  out.compute_s = seconds(compute) / count;
  out.stall_s = seconds(stall) / count;
  out.idle_s = seconds(idle) / count;
  out.down_s = seconds(down) / count;
  if (first_batch != Instant{}) out.first_batch_s = seconds(first_batch - started);
  if (first_step != Instant{}) out.first_step_s = seconds(first_step - started);
  if (out.time_s > 0) {
    out.samples_per_s = static_cast<double>(out.samples) / out.time_s;
  }
  const double after_first_s = out.time_s - out.first_step_s;
  if (first_step != Instant{} && after_first_s > 0) {
    out.au = (out.compute_s - seconds(first_compute) / count) / after_first_s;
  } else if (out.time_s > 0) {  // there is only one step
    out.au = out.compute_s / out.time_s;
  }
  out.waited = waited;
  out.buffer = buffer_of(exemplars, shown);
  out.bottleneck = bottleneck(out);
}

}  // namespace batchflow::world
