#include "sim/cluster_replay/replay_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/config_error.h"
#include "core/random.h"

namespace batchflow::sim {

namespace {

// Of every kind of nodes so large a share, evenly; and of what they share.
void scale_cluster(ClusterModel& cluster, double scale) {
  if (scale == 1) return;
  std::vector<NodeModel> kept;
  double due = 0;
  for (NodeModel& node : cluster.nodes) {
    due += scale;
    if (due < 1) continue;
    due -= 1;
    kept.push_back(std::move(node));
  }
  if (kept.empty()) {
    throw ConfigError(fmt::format("--scale-gpus {}: no node of cluster '{}' is left; write more",
                                  scale, cluster.name));
  }
  cluster.nodes = std::move(kept);
  for (LinkModel& link : cluster.links) link.bytes_per_s *= scale;
  for (Curve::Point& point : cluster.store.bytes_per_s.points) point.y *= scale;
  cluster.store_nic_bytes_per_s *= scale;
}

std::uint32_t power_of_two(double at_most) {
  return at_most < 1 ? 1 : std::bit_floor(static_cast<std::uint32_t>(std::min(at_most, 1e9)));
}

class Builder {
 public:
  Builder(Scenario base, const JobTrace& trace, const OverlayModel& overlay,
          const ReplayGrain& grain)
      : scenario_(std::move(base)), trace_(trace), overlay_(overlay), grain_(grain) {}

  Scenario run(const ReplayWindow& window, LeftOut& left_out) {
    scale_cluster(scenario_.cluster, window.scale);
    scenario_.engine.hold_ingredients = false;
    std::uint32_t& workers = scenario_.engine.workers_per_rank;
    for (NodeModel& node : scenario_.cluster.nodes) {
      const auto parts = static_cast<std::uint32_t>(grain_.workers_per_node);
      node.cores_per_worker = workers > 0 ? workers : std::max(1u, node.cores / parts);
    }
    workers = std::min(workers, 1u);
    gpus_ = scenario_.cluster.gpus();
    const Assignment assignment = assign(trace_, overlay_, scenario_.seed);
    dataset_of_.assign(assignment.datasets.size(), -1);
    for (const AssignedJob& job : assignment.jobs) {
      if (fits(job, window, left_out)) add(job, assignment.datasets[job.dataset]);
    }
    if (scenario_.jobs.empty()) {
      throw ConfigError(fmt::format(
          "{}: none of its {} jobs can be replayed; look at `batchflow-sim trace info`, --from, "
          "--to and --scale-gpus",
          trace_.name, trace_.jobs.size()));
    }
    return std::move(scenario_);
  }

 private:
  bool fits(const AssignedJob& job, const ReplayWindow& window, LeftOut& out) const {
    const JobRecord& record = trace_.jobs[job.record];
    const auto leave_out = [](std::uint64_t& why) {
      ++why;
      return false;
    };
    if (record.gpus_hundredths == 0) return leave_out(out.without_gpus);
    if (job.compute.count() <= 0) return leave_out(out.without_duration);
    if (scenario_.scheduler == Scheduler::recorded && !record.has_start()) {
      return leave_out(out.without_start);
    }
    if (window.from != kNoTime && record.submit_ns < window.from) return leave_out(out.by_window);
    if (window.to != kNoTime && record.submit_ns >= window.to) return leave_out(out.by_window);
    const double chance = static_cast<double>(hash(record.submit_ns, job.record) >> 11) * 0x1p-53;
    if (window.scale < 1 && chance >= window.scale) return leave_out(out.by_scale);
    if (job.gpus > gpus_) return leave_out(out.too_large);
    return true;
  }

  int dataset(std::uint32_t index, const AssignedDataset& assigned) {
    int& known = dataset_of_[index];
    if (known >= 0) return known;
    known = static_cast<int>(scenario_.datasets.size());
    const OverlayClass& one = overlay_.classes[assigned.class_index];
    DatasetModel model = one.dataset;
    model.name = fmt::format("{}-{}", one.name, assigned.number);
    model.bytes_spread = {};  // an item is the mean of many
    const std::uint64_t items = std::min<std::uint64_t>(grain_.items, assigned.samples);
    model.samples_per_item =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, assigned.samples / items));
    model.samples = items * model.samples_per_item;
    scenario_.datasets.push_back(std::move(model));
    return known;
  }

  // The pipeline of a class with blocks of this size; jobs with another one share no blocks.
  int pipeline(const OverlayClass& one, std::uint32_t variant, std::uint32_t items,
               std::uint32_t epochs) {
    PipelineModel model = one.pipeline;
    model.items_per_block = items;
    model.epochs_per_block = epochs;
    if (variant > 0) model.name += fmt::format("/{}", variant);
    model.name += fmt::format(" {}x{}", items, epochs);
    const auto [known, is_new] =
        pipeline_of_.emplace(model.name, static_cast<int>(scenario_.pipelines.size()));
    if (is_new) scenario_.pipelines.push_back(std::move(model));
    return known->second;
  }

  // More for a longer job, but less than in proportion: what is told of it is not told more exactly
  // than of a shorter one, but weighs more.
  double steps_of(const AssignedJob& job) const {
    const double hours = static_cast<double>(job.compute.count()) / 3.6e12;
    const auto at_one_hour = static_cast<double>(grain_.steps);
    const double steps =
        std::clamp(at_one_hour * std::sqrt(hours), at_one_hour / 6, 2 * at_one_hour);
    // One worker prepares for few GPUs as fast as they train.
    return steps * std::clamp(job.gpus / 4., 1., 8.);
  }

  void add(const AssignedJob& assigned, const AssignedDataset& data) {
    const JobRecord& record = trace_.jobs[assigned.record];
    JobModel job;
    job.name = trace_.text(record.id);
    if (job.name.empty()) job.name = fmt::format("job-{}", assigned.record);
    job.user = trace_.text(record.user);
    job.dataset = dataset(assigned.dataset, data);
    job.ranks = assigned.gpus;
    const DatasetModel& stored = scenario_.datasets[static_cast<std::size_t>(job.dataset)];
    const double items = static_cast<double>(scenario_.items(stored));
    // A step's part of a pass, or so many passes.
    const double part = assigned.passes / steps_of(assigned);
    const std::uint32_t epochs = power_of_two(part);
    const std::uint32_t block = power_of_two(std::min(items, std::max(1., part * items)));
    const std::uint32_t batch = std::max(1u, block / job.ranks);
    job.batch = batch * stored.samples_per_item;
    const double step_items = std::min(items, static_cast<double>(batch) * job.ranks);
    job.drop_last = static_cast<double>(batch) * job.ranks <= items;
    const double steps = std::max(1., std::round(assigned.passes * items / (step_items * epochs)));
    job.steps = static_cast<std::uint64_t>(steps);
    job.step = Duration(std::llround(static_cast<double>(assigned.compute.count()) /
                                     (steps * static_cast<double>(epochs))));
    const double steps_an_epoch = std::floor(items / step_items);
    const double passes = std::ceil(steps / steps_an_epoch);
    job.epochs = static_cast<std::uint32_t>(std::min(passes, 1e6) + 1) * epochs;
    job.pipeline = pipeline(overlay_.classes[data.class_index], assigned.variant, block, epochs);
    job.arrives = Instant(Duration(record.submit_ns));
    if (scenario_.scheduler == Scheduler::recorded) {
      job.not_before = Instant(Duration(record.start_ns));
    }
    scenario_.jobs.push_back(std::move(job));
  }

  Scenario scenario_;
  const JobTrace& trace_;
  const OverlayModel& overlay_;
  const ReplayGrain& grain_;
  std::uint32_t gpus_ = 0;
  std::vector<int> dataset_of_;             // by assigned data set; -1: not used yet
  std::map<std::string, int> pipeline_of_;  // by name
};

}  // namespace

Scenario replay_scenario(Scenario base, const JobTrace& trace, const OverlayModel& overlay,
                         const ReplayGrain& grain, const ReplayWindow& window, LeftOut& left_out) {
  Scenario scenario = Builder(std::move(base), trace, overlay, grain).run(window, left_out);
  // The first is submitted at zero.
  const Duration zero = scenario.jobs.front().arrives - Instant{};
  for (JobModel& job : scenario.jobs) {
    job.arrives -= zero;
    if (job.not_before != Instant{}) job.not_before -= zero;
  }
  return scenario;
}

}  // namespace batchflow::sim
