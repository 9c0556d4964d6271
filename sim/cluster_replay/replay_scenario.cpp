#include "sim/cluster_replay/replay_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/config_value.h"
#include "core/base/random.h"

namespace batchflow::sim {

namespace {

// Keeps this share of every kind of nodes, evenly, and of what they share.
void scale_cluster(input::ClusterModel& cluster, double scale) {
  if (scale == 1) return;
  std::vector<input::NodeModel> kept;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const double due = scale * static_cast<double>(i + 1) + 1e-9;
    if (static_cast<double>(kept.size()) + 1 <= due) kept.push_back(std::move(cluster.nodes[i]));
  }
  if (kept.empty()) {
    throw ConfigError(fmt::format("--scale-gpus {}: no node of cluster '{}' is left; write more",
                                  scale, cluster.name));
  }
  cluster.nodes = std::move(kept);
  for (input::LinkModel& link : cluster.links) link.bytes_per_s *= scale;
  for (input::Curve::Point& point : cluster.store.bytes_per_s.points) point.y *= scale;
  cluster.store_nic_bytes_per_s *= scale;
}

// The nearest power of four, and 1 at least.
double power_of_four(double to) {
  return to < 2 ? 1 : std::exp2(2 * std::round(std::log2(std::min(to, 1e9)) / 2));
}

std::uint32_t power_of_two(double at_most) {
  return at_most < 1 ? 1 : std::bit_floor(static_cast<std::uint32_t>(std::min(at_most, 1e9)));
}

// The batch of a GPU at the fine grain; a job on a small dataset takes a smaller one, so that an
// epoch has many batches.
constexpr std::uint64_t kBatch = 256;

// The least number of items of a dataset, and of those that nine of ten of its jobs go through.
constexpr double kItemsLeast = 16;
constexpr double kItemsAJob = 2;
constexpr double kItemsANode = 32;  // of a dataset that would fill the cache of a node

// A job's samples may be rounded by so much, when it takes few steps and their number is whole.
constexpr double kRoundedMost = 0.1;
constexpr double kFewSteps = 4;

// Blocks that a node prepares at once; each of its GPUs may train a job of its own.
constexpr std::uint32_t kBlocksAtOnce = 4;

class Builder {
 public:
  Builder(input::Scenario base, const traces::JobTrace& trace, const input::OverlayModel& overlay,
          const ReplayGrain& grain)
      : scenario_(std::move(base)), trace_(trace), overlay_(overlay), grain_(grain) {}

  input::Scenario run(const ReplayWindow& window, LeftOut& left_out) {
    scale_cluster(scenario_.cluster, window.scale);
    if (!grain_.fine) coarsen_engine();
    gpus_ = scenario_.cluster.gpus();
    for (const input::NodeModel& node : scenario_.cluster.nodes) {
      if (node.gpus == 0) continue;
      gpus_a_node_ = std::max(gpus_a_node_, node.gpus);
      cache_ = std::min(cache_, std::max(1., static_cast<double>(node.cache)));
      gpu_bytes_per_s_ = std::max(gpu_bytes_per_s_, node.nic_bytes_per_s / node.gpus);
      gpu_cores_ = std::max(gpu_cores_, node.cores * node.core_speed / node.gpus);
    }
    Assignment assignment = assign(trace_, overlay_, scenario_.seed);
    std::vector<bool> slowed;
    for (AssignedJob& job : assignment.jobs) slowed.push_back(slow_down(job, assignment));
    dataset_of_.assign(assignment.datasets.size(), -1);
    count_items(assignment);
    for (std::size_t i = 0; i < assignment.jobs.size(); ++i) {
      const AssignedJob& job = assignment.jobs[i];
      if (!fits(job, window, left_out)) continue;
      left_out.slowed_down += slowed[i];
      left_out.parts_of_gpus += trace_.jobs[job.record].gpus_hundredths % 100 != 0;
      add(job, assignment.datasets[job.dataset]);
    }
    if (scenario_.jobs.empty()) {
      std::string why;
      for (const auto& [reason, count] : left_out_reasons(left_out)) {
        if (count > 0) why += fmt::format("{}{} {}", why.empty() ? ": " : ", ", count, reason);
      }
      throw ConfigError(fmt::format(
          "{}: none of its {} jobs can be replayed{}; look at `batchflow-sim trace info`, --from, "
          "--to, --scale-gpus and --cluster",
          trace_.name, trace_.jobs.size(), why));
    }
    return std::move(scenario_);
  }

 private:
  void coarsen_engine() {
    engine::EngineConfig& engine = scenario_.engine;
    engine.hold_ingredients = false;
    engine.look_ahead_most = 0;
    engine.credits = 1;
    engine.blocks_least = 1;
    engine.late_after_p99 = 0;
    // Replays last for days, and each question about memory looks at all of a node's shares.
    if (engine.policies.allocation == "batchflow") {
      engine.policies.allocation = "batchflow:period_s=3600";
    }
    engine.blocks_in_flight_per_worker = 1;
    cores_a_rank_ = std::exchange(engine.workers_per_rank, std::min(engine.workers_per_rank, 1u));
    for (input::NodeModel& node : scenario_.cluster.nodes) {
      node.workers = std::max(kBlocksAtOnce, node.gpus);
    }
  }

  bool fits(const AssignedJob& job, const ReplayWindow& window, LeftOut& out) const {
    const traces::JobRecord& record = trace_.jobs[job.record];
    const auto leave_out = [](std::uint64_t& why) {
      ++why;
      return false;
    };
    if (record.gpus_hundredths == 0) return leave_out(out.without_gpus);
    if (job.compute.count() <= 0) return leave_out(out.without_duration);
    if (scenario_.scheduler == input::Scheduler::recorded && !record.has_start()) {
      return leave_out(out.without_start);
    }
    if (window.from != traces::kNoTime && record.submit_ns < window.from)
      return leave_out(out.by_window);
    if (window.to != traces::kNoTime && record.submit_ns >= window.to)
      return leave_out(out.by_window);
    const double chance = static_cast<double>(hash(record.submit_ns, job.record) >> 11) * 0x1p-53;
    if (window.scale < 1 && chance >= window.scale) return leave_out(out.by_scale);
    if (job.gpus > gpus_) return leave_out(out.too_large);
    return true;
  }

  // A job that computed in nearly all of its recorded time was fed by its nodes in that time. So a
  // model is no faster than the card and the cores of its GPUs could feed it.
  bool slow_down(AssignedJob& job, const Assignment& assignment) const {
    const input::OverlayClass& overlay_class =
        overlay_.classes[assignment.datasets[job.dataset].class_index];
    const engine::PipelineInfo info = overlay_class.pipeline.info(overlay_class.dataset.bytes);
    const double core_s =
        static_cast<double>((info.decode_cost + info.augment_cost).count()) * 1e-9;
    double most = job.samples_per_s;
    if (gpu_bytes_per_s_ > 0 && overlay_class.dataset.bytes > 0) {
      most = std::min(most, gpu_bytes_per_s_ / static_cast<double>(overlay_class.dataset.bytes));
    }
    if (gpu_cores_ > 0 && core_s > 0) most = std::min(most, gpu_cores_ / core_s);
    if (most >= job.samples_per_s) return false;
    job.passes *= most / job.samples_per_s;
    job.samples_per_s = most;
    return true;
  }

  // Counted over all jobs of the trace, so that a part of it is replayed as it is within the whole.
  void count_items(const Assignment& assignment) {
    std::vector<std::vector<double>> passes(assignment.datasets.size());
    for (const AssignedJob& job : assignment.jobs) {
      if (job.passes > 0) passes[job.dataset].push_back(job.passes);
    }
    items_of_.assign(passes.size(), grain_.items);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      if (passes[i].empty()) continue;
      const auto tenth = passes[i].begin() + static_cast<std::ptrdiff_t>(passes[i].size() / 10);
      std::nth_element(passes[i].begin(), tenth, passes[i].end());
      const AssignedDataset& data = assignment.datasets[i];
      const double bytes = static_cast<double>(data.samples) *
                           static_cast<double>(overlay_.classes[data.class_index].dataset.bytes);
      const double wanted = std::max({kItemsLeast, std::min(kItemsAJob / *tenth, 1e9),
                                      std::min(kItemsANode * bytes / cache_, 1e9)});
      items_of_[i] = std::min(grain_.items, std::bit_ceil(static_cast<std::uint64_t>(wanted)));
    }
  }

  int dataset(std::uint32_t index, const AssignedDataset& assigned) {
    int& known = dataset_of_[index];
    if (known >= 0) return known;
    known = static_cast<int>(scenario_.datasets.size());
    const input::OverlayClass& overlay_class = overlay_.classes[assigned.class_index];
    input::DatasetModel model = overlay_class.dataset;
    model.name = fmt::format("{}-{}", overlay_class.name, assigned.number);
    model.bytes_spread = {};  // an item is the mean of many samples
    std::uint64_t items = std::min(items_of_[index], assigned.samples);
    if (grain_.fine) {
      const std::uint64_t batch = std::min<std::uint64_t>(kBatch, (assigned.samples + 63) / 64);
      items = assigned.samples / batch;
    }
    model.samples_per_item =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, assigned.samples / items));
    model.samples = items * model.samples_per_item;
    scenario_.datasets.push_back(std::move(model));
    return known;
  }

  // The pipeline of a class with blocks of this size; jobs with different pipelines share no
  // blocks.
  int pipeline(const input::OverlayClass& overlay_class, std::uint32_t variant, std::uint32_t items,
               std::uint32_t epochs, std::uint32_t cores) {
    input::PipelineModel model = overlay_class.pipeline;
    model.items_per_block = items;
    model.epochs_per_block = epochs;
    model.cores_most = cores;
    if (variant > 0) model.name += fmt::format("/{}", variant);
    if (items > 0) model.name += fmt::format(" {}x{}", items, epochs);
    if (cores > 0) model.name += fmt::format(" {}", cores);
    const auto [known, is_new] =
        pipeline_of_.emplace(model.name, static_cast<int>(scenario_.pipelines.size()));
    if (is_new) scenario_.pipelines.push_back(std::move(model));
    return known->second;
  }

  // A longer job takes more steps, but fewer than in proportion: its figures are no more exact than
  // those of a shorter job, but they weigh more.
  double steps_of(const AssignedJob& job) const {
    const double hours = static_cast<double>(job.compute.count()) / 3.6e12;
    const auto at_one_hour = static_cast<double>(grain_.steps);
    return std::clamp(at_one_hour * std::sqrt(hours), at_one_hour / 3, 3 * at_one_hour);
  }

  void add(const AssignedJob& assigned, const AssignedDataset& data) {
    const traces::JobRecord& record = trace_.jobs[assigned.record];
    input::JobModel job;
    job.name = trace_.text(record.id);
    if (job.name.empty()) job.name = fmt::format("job-{}", assigned.record);
    job.user = trace_.text(record.user);
    job.dataset = dataset(assigned.dataset, data);
    job.ranks = assigned.gpus;
    const input::DatasetModel& stored = scenario_.datasets[static_cast<std::size_t>(job.dataset)];
    const double items = static_cast<double>(scenario_.items(stored));
    job.arrives = Instant(Duration(record.submit_ns));
    if (scenario_.scheduler == input::Scheduler::recorded) {
      job.not_before = Instant(Duration(record.start_ns));
    }
    if (grain_.fine) {
      train_by_batches(job, assigned, data, items);
    } else {
      train_by_streams(job, assigned, data, items);
    }
    scenario_.jobs.push_back(std::move(job));
  }

  void train_by_batches(input::JobModel& job, const AssignedJob& assigned,
                        const AssignedDataset& data, double items) {
    const input::DatasetModel& stored = scenario_.datasets[static_cast<std::size_t>(job.dataset)];
    job.batch = stored.samples_per_item;
    job.drop_last = items >= job.ranks;
    const double step = std::min<double>(items, job.ranks);
    set_steps(job, assigned, std::round(assigned.passes * items / step), std::floor(items / step),
              1);
    job.pipeline = pipeline(overlay_.classes[data.class_index], assigned.variant, 0, 0, 0);
  }

  void set_steps(input::JobModel& job, const AssignedJob& assigned, double steps,
                 double steps_an_epoch, std::uint32_t epochs) const {
    steps = std::max(1., steps);
    job.steps = static_cast<std::uint64_t>(steps);
    job.step = Duration(std::llround(static_cast<double>(assigned.compute.count()) /
                                     (steps * static_cast<double>(epochs))));
    const double passes = std::ceil(steps / steps_an_epoch);
    job.epochs = static_cast<std::uint32_t>(std::min(passes, 1e6) + 1) * epochs;
  }

  void train_by_streams(input::JobModel& job, const AssignedJob& assigned,
                        const AssignedDataset& data, double items) {
    const input::DatasetModel& stored = scenario_.datasets[static_cast<std::size_t>(job.dataset)];
    // A block for each node that the job needs.
    const std::uint32_t nodes = std::bit_ceil((assigned.gpus + gpus_a_node_ - 1) / gpus_a_node_);
    const std::uint32_t least = std::min(nodes, power_of_two(items));
    // A block is a part of a pass, or several passes. Few sizes are used, so that jobs share
    // blocks.
    const std::uint32_t whole = power_of_two(items);
    std::uint32_t step = 0;
    std::uint32_t epochs = 0;
    double steps = 0;
    for (double block = power_of_four(assigned.passes * items / steps_of(assigned) / least);;
         block /= 2) {
      step = static_cast<std::uint32_t>(std::min<double>(block * least, whole));
      epochs = static_cast<std::uint32_t>(std::clamp(block * least / whole, 1., 1e9));
      steps = assigned.passes * items / step / epochs;
      const double off = std::abs(std::round(steps) - steps);
      if (off <= kRoundedMost * steps || steps > kFewSteps || block < 2) break;
    }
    job.batch = step * stored.samples_per_item;
    job.drop_last = true;
    job.node_local = least > 1;
    set_steps(job, assigned, std::round(steps), std::floor(items / step), epochs);
    job.samples_in_all = static_cast<std::uint64_t>(
        std::max(1., std::round(assigned.passes * static_cast<double>(data.samples))));
    const std::uint32_t cores = cores_a_rank_ * std::min(assigned.gpus, gpus_a_node_);
    job.pipeline =
        pipeline(overlay_.classes[data.class_index], assigned.variant, step / least, epochs, cores);
  }

  input::Scenario scenario_;
  const traces::JobTrace& trace_;
  const input::OverlayModel& overlay_;
  const ReplayGrain& grain_;
  std::uint32_t gpus_ = 0;
  std::uint32_t gpus_a_node_ = 1;  // of the largest node
  double cache_ = 1e18;            // of the smallest node
  // The bytes per second that a GPU has for itself, at most.
  double gpu_bytes_per_s_ = 0;
  double gpu_cores_ = 0;
  std::uint32_t cores_a_rank_ = 0;          // where each rank has workers of its own
  std::vector<int> dataset_of_;             // by assigned dataset; -1: not used yet
  std::vector<std::uint64_t> items_of_;     // by assigned dataset
  std::map<std::string, int> pipeline_of_;  // by name
};

}  // namespace

input::Scenario replay_scenario(input::Scenario base, const traces::JobTrace& trace,
                                const input::OverlayModel& overlay, const ReplayGrain& grain,
                                const ReplayWindow& window, LeftOut& left_out) {
  input::Scenario scenario = Builder(std::move(base), trace, overlay, grain).run(window, left_out);
  // The first job is submitted at zero.
  const Duration zero = scenario.jobs.front().arrives - Instant{};
  left_out.begins_ns = zero.count();
  for (input::JobModel& job : scenario.jobs) {
    job.arrives -= zero;
    if (job.not_before != Instant{}) job.not_before -= zero;
  }
  return scenario;
}

}  // namespace batchflow::sim
