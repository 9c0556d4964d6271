#include "programs/input/recorded_jobs.h"

#include <fmt/format.h>

#include <algorithm>

namespace batchflow::input {

std::uint64_t RecordedJobs::JobTrack::steps_done() const {
  std::uint64_t least = UINT64_MAX;
  for (const RankTrack& rank : ranks) least = std::min(least, rank.steps);
  return ranks.empty() ? 0 : least;
}

RecordedJobs::JobTrack* RecordedJobs::find(JobId job) {
  const auto found = jobs_.find(job.value);
  return found == jobs_.end() ? nullptr : &found->second;
}

void RecordedJobs::joined(const engine::JobJoined& event, std::size_t dataset, std::size_t pipeline,
                          Instant now) {
  JobTrack& track = jobs_[event.job.value];
  track.joined = now;
  if (!began_) began_ = now;
  ObservedJob& job = track.job;
  job.name = fmt::format("job-{}", event.job.value);
  const auto user = users_.try_emplace(event.user, users_.size()).first;
  job.user = fmt::format("user-{}", user->second);
  job.dataset = dataset;
  job.pipeline = pipeline;
  job.order = event.order;
  if (event.has_shuffle_seed) job.shuffle_seed = event.shuffle_seed;
  job.batch = event.batch_samples;
  job.keyed = event.keyed;
  job.drop_last = event.drop_last;
  job.node_local = event.node_local;
  job.runs = event.runs;
  job.rehearsed = event.rehearsed;
  job.exemplars = event.buffer_exemplars;
  job.credits = event.credits;
  job.weight = event.weight;
  job.latency_target = event.latency_target;
  job.ranks = static_cast<std::uint32_t>(std::max<std::size_t>(1, event.ranks.size()));
  job.arrives = now - *began_;
  for (const NodeId node : event.ranks)
    if (std::find(job.nodes.begin(), job.nodes.end(), node.value) == job.nodes.end())
      job.nodes.push_back(node.value);
  track.epochs_asked = event.epochs;
  track.steps_asked = event.steps;
  track.ranks.assign(job.ranks, {now, now, 0, 0});
  if (event.position != nullptr)
    notes_.insert(fmt::format(
        "{} came with a position in its data; in the simulation it begins an epoch", job.name));
}

void RecordedJobs::reported(const engine::ExemplarsReported& event) {
  if (JobTrack* track = find(event.job))
    track->job.exemplars = std::max(track->job.exemplars,
                                    event.first + static_cast<std::uint32_t>(event.samples.size()));
}

void RecordedJobs::resized(const engine::JobResized& event) {
  if (JobTrack* track = find(event.job))
    notes_.insert(fmt::format("{} went on with {} ranks; in the simulation it keeps its {}",
                              track->job.name, event.ranks.size(), track->job.ranks));
}

void RecordedJobs::left(const engine::JobLeft& event, Instant now) {
  if (JobTrack* track = find(event.job)) {
    track->left = true;
    ends_ = now;
  }
}

void RecordedJobs::consumed(const engine::BatchConsumed& event, Instant now) {
  JobTrack* const track = find(event.job);
  if (track == nullptr || event.rank >= track->ranks.size()) return;
  RankTrack& rank = track->ranks[event.rank];
  ++rank.steps;
  if (event.compute > Duration(1)) track->steps.add(seconds_of(event.compute));
  const auto found = delivered_.find({event.job.value, event.rank, event.step});
  if (found != delivered_.end()) {
    rank.stall_s += std::max(0., seconds_of(found->second.at - rank.free_since));
    samples_ += found->second.samples;
    configuration_.trained(found->second.samples);
    delivered_.erase(found);
  }
  rank.free_since = rank.last = ends_ = now;
}

void RecordedJobs::handed_over(const engine::Deliver& command) {
  JobTrack* const track = find(command.job);
  if (track == nullptr) return;
  track->last_epoch = std::max(track->last_epoch, command.epoch);
  std::uint64_t samples = 0;
  for (const order::Slice& slice : command.slices)
    if (!slice.filler && !slice.rehearsed) samples += slice.to - slice.from;
  if (command.slices.empty())
    samples = std::max(command.samples.size(), command.ingredients.size());
  delivering_[command.request.id.value] = {{command.job.value, command.rank, command.step},
                                           samples};
}

void RecordedJobs::delivered(const engine::DeliveryDone& event, Instant now) {
  const auto found = delivering_.find(event.request.id.value);
  if (found == delivering_.end()) return;
  const auto& [key, samples] = found->second;
  delivered_[key] = {now, samples};
  delivering_.erase(found);
}

void RecordedJobs::refused(const engine::Refuse& command) {
  if (JobTrack* track = find(command.job))
    notes_.insert(fmt::format("{} was refused ({})", track->job.name, name_of(command.why)));
}

void RecordedJobs::ended(const engine::EpochEnded& command) {
  if (JobTrack* track = find(command.job)) ++track->epochs_ended;
}

void RecordedJobs::finish(RecordedRun& run) {
  RecordedFigures& figures = run.figures;
  figures.samples = samples_;
  if (began_ && ends_ > *began_) figures.span_s = seconds_of(ends_ - *began_);
  std::uint64_t cut = 0;
  for (auto& [id, track] : jobs_) {
    for (const RankTrack& rank : track.ranks) {
      figures.rank_s += seconds_of(rank.last - track.joined);
      figures.stall_s += rank.stall_s;
    }
    const std::uint64_t steps = track.steps_done();
    if (steps == 0) {
      notes_.insert(fmt::format("{} trained on nothing, and is left out", track.job.name));
      continue;
    }
    const bool whole = track.epochs_asked > 0 && track.epochs_ended >= track.epochs_asked;
    track.job.epochs = track.epochs_asked > 0 ? track.epochs_asked : track.last_epoch + 1;
    if (!whole) {
      // The last step of a job that ends by its steps is not reported before it leaves.
      track.job.steps = track.left && track.steps_asked == steps + 1 ? track.steps_asked : steps;
      cut += track.left ? 0 : 1;
    }
    const MeanAndJitter step = track.steps.result();
    track.job.step_s = step.mean;
    track.job.step_jitter = step.jitter;
    run.workload.jobs.push_back(track.job);
  }
  if (cut > 0)
    notes_.insert(fmt::format(
        "{} job(s) still ran where the journal ends, and are simulated as far as that", cut));
  std::stable_sort(
      run.workload.jobs.begin(), run.workload.jobs.end(),
      [](const ObservedJob& a, const ObservedJob& b) { return a.arrives < b.arrives; });
}

}  // namespace batchflow::input
