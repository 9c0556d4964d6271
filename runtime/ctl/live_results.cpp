#include "runtime/ctl/live_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/policy_texts.h"
#include "nlohmann/json.hpp"
#include "programs/config/engine_settings.h"
#include "programs/input/workload_summary.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// A service does not follow these, or a toy job cannot know them.
constexpr const char* kNotMeasured[] = {"aggregate.cached_bytes_most",
                                        "aggregate.network_bytes",
                                        "aggregate.pcie_bytes",
                                        "aggregate.nvlink_bytes",
                                        "aggregate.gpu_read_bytes",
                                        "aggregate.gpu_written_bytes",
                                        "aggregate.requests_again",
                                        "aggregate.requests_price",
                                        "aggregate.store_written_bytes",
                                        "aggregate.store_restored_bytes",
                                        "aggregate.cancelled_read_bytes",
                                        "aggregate.cancelled_preparation_s",
                                        "aggregate.lost_samples",
                                        "aggregate.repeated_samples",
                                        "aggregate.cost",
                                        "aggregate.cost_per_million_samples",
                                        "cluster.store_bytes_per_s",
                                        "cluster.network_bytes_per_s",
                                        "cluster.pcie_bytes_per_s",
                                        "jobs.restarts",
                                        "jobs.lost_samples",
                                        "jobs.repeated_samples",
                                        "jobs.down_s",
                                        "jobs.bottleneck",
                                        "jobs.waited"};

// The entry of a list that has this name, or this path; null: there is none.
const json* entry(const json& all, const char* list, const std::string& name) {
  const auto found = all.find(list);
  if (found == all.end()) return nullptr;
  for (const json& one : *found)
    if (one.value("name", "") == name || one.value("path", "") == name) return &one;
  return nullptr;
}

const input::DatasetModel& dataset_of(const input::Scenario& scenario, const input::JobModel& job) {
  return scenario.datasets[static_cast<std::size_t>(job.dataset)];
}

// Collects what differs from the scenario.
class Differences {
 public:
  void add(std::string part) { parts_.push_back(std::move(part)); }
  // "`before`5`after`, not 6", unless they are the same.
  template <class Value>
  void compare(std::string_view before, const Value& live, const Value& model,
               std::string_view after = "") {
    if (live != model) parts_.push_back(fmt::format("{}{}{}, not {}", before, live, after, model));
  }
  std::string remark() const {
    return parts_.empty() ? "run live" : fmt::format("run live: {}", fmt::join(parts_, "; "));
  }

 private:
  std::vector<std::string> parts_;
};

void compare_jobs(const input::Scenario& scenario, double time_scale, Differences& all) {
  if (time_scale != 1) all.add(fmt::format("all sleeping times are times {}", time_scale));
  const bool varies = std::any_of(scenario.jobs.begin(), scenario.jobs.end(),
                                  [](const auto& job) { return job.step_spread.ratio > 0; });
  if (varies) all.add("each step takes the mean time of its job's steps");
  std::set<std::string> users;
  for (const input::JobModel& job : scenario.jobs) users.insert(job.user);
  if (users.size() > 1) all.add(fmt::format("one user's jobs, not {} users'", users.size()));
}

void compare_nodes(const input::Scenario& scenario, const json& status, Differences& all) {
  std::uint64_t workers = 0;
  Bytes cache = 0, drives = 0;
  for (const input::NodeModel& node : scenario.cluster.nodes) {
    workers += node.workers > 0 ? node.workers : node.cores;
    cache += node.cache;
    drives += node.nvme;
  }
  all.compare("", std::size_t{1}, scenario.cluster.nodes.size(), " node");
  all.compare("", status.value("workers_most", std::uint64_t{0}), workers, " workers");
  all.compare("", status.value("planned_bytes", Bytes{0}), cache, " bytes of cache");
  all.compare("", status.value("spill_limit_bytes", Bytes{0}), drives, " bytes of drives");
}

// Settings of the engine beside its policies, as `visit(key, value)`.
template <class Visit>
void visit_settings_alone(const input::Scenario& scenario, const Visit& visit) {
  config::visit_settings(config::text_of(scenario.engine),
                         [&](std::string_view key, std::string_view value) {
                           if (key != "preset" && !key.starts_with("policies.")) visit(key, value);
                         });
}

void compare_engines(const input::Scenario& scenario, const json& status, Differences& all) {
  all.compare("preset ", status.value("preset", ""), scenario.engine.preset);
  const json policies = status.value("policies", json::object());
  engine::visit_policies(scenario.engine.policies,
                         [&](std::string_view kind, const std::string& text) {
                           all.compare(fmt::format("{} by ", kind), policies.value(kind, ""), text);
                         });
  const json settings = status.value("settings", json::object());
  visit_settings_alone(scenario, [&](std::string_view key, std::string_view value) {
    all.compare(fmt::format("{} ", key), settings.value(key, "unknown"), std::string(value));
  });
}

void compare_dataset(const input::DatasetModel& dataset, const json& live, Differences& all) {
  const std::uint64_t samples = live.value("samples", std::uint64_t{0});
  const std::string& name = dataset.name;
  all.compare(fmt::format("{} has ", name), samples, dataset.samples, " samples");
  if (samples > 0)
    all.compare(fmt::format("a sample of {} has ", name), live.value("bytes", Bytes{0}) / samples,
                dataset.bytes, " bytes");
  std::uint64_t bundle = 1;
  while (dataset.bundle > 0 && dataset.bytes * bundle * 2 <= dataset.bundle) bundle *= 2;
  all.compare("", live.value("bundle_samples", std::uint64_t{1}), bundle,
              fmt::format(" samples of {} are read at once", name));
}

// What the engine knows of the data. What jobs of another user brought is not shown.
void compare_data(const input::Scenario& scenario, const LiveNames& names, const json& status,
                  Differences& all) {
  for (const input::DatasetModel& dataset : scenario.datasets)
    if (const json* live = entry(status, "datasets", names.dataset(dataset.name)))
      compare_dataset(dataset, *live, all);
  std::set<std::pair<int, int>> seen;
  for (const input::JobModel& job : scenario.jobs) {
    if (!seen.emplace(job.dataset, job.pipeline).second) continue;
    const input::DatasetModel& dataset = dataset_of(scenario, job);
    const input::PipelineModel& model = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const std::string name = names.pipeline(model.name);
    all.compare(fmt::format("{} by pipeline ", dataset.name), name, model.name);
    const json* live = entry(status, "datasets", names.dataset(dataset.name));
    const json* prepared = live == nullptr ? nullptr : entry(*live, "pipelines", name);
    if (prepared == nullptr) continue;
    const engine::PipelineInfo info = model.info(dataset.bytes);
    const std::string sample = fmt::format("a sample of {} by {} ", dataset.name, name);
    all.compare(sample + "is prepared in ", prepared->value("prepared_bytes", Bytes{0}),
                info.prepared_bytes, " bytes");
    all.compare(sample + "is decoded in ", prepared->value("decoded_bytes", Bytes{0}),
                info.decoded_bytes, " bytes");
  }
}

std::string remark(const input::Scenario& scenario, const LiveNames& names, double time_scale,
                   const json& status) {
  Differences all;
  compare_jobs(scenario, time_scale, all);
  compare_nodes(scenario, status, all);
  compare_engines(scenario, status, all);
  compare_data(scenario, names, status, all);
  return all.remark();
}

// The scenario's, with as many samples as the service has.
input::WorkloadSummary workload(input::Scenario scenario, const LiveNames& names,
                                const json& status) {
  for (input::DatasetModel& dataset : scenario.datasets)
    if (const json* live = entry(status, "datasets", names.dataset(dataset.name)))
      dataset.samples = live->value("samples", dataset.samples);
  return input::summary_of_workload(scenario);
}

void name_engine(const input::Scenario& scenario, const json& status, output::RunResult& run) {
  run.policies.emplace_back("preset", status.value("preset", ""));
  const json policies = status.value("policies", json::object());
  engine::visit_policies(scenario.engine.policies, [&](std::string_view kind, const std::string&) {
    run.policies.emplace_back(kind, policies.value(kind, ""));
  });
  const json settings = status.value("settings", json::object());
  visit_settings_alone(scenario, [&](std::string_view key, std::string_view) {
    run.settings.emplace_back(key, settings.value(key, "unknown"));
  });
}

}  // namespace

output::RunResult live_results(const input::Scenario& scenario, const LiveNames& names,
                               std::span<const toys::ToyOutcome> outcomes, double time_scale,
                               const json& before, const json& after) {
  const auto grown = [&](const char* key) {
    const std::uint64_t end = after.value(key, std::uint64_t{0});
    return end - std::min(end, before.value(key, std::uint64_t{0}));
  };
  output::RunResult run;
  run.scenario = scenario.name;
  run.seed = scenario.seed;
  name_engine(scenario, after, run);
  run.workload = workload(scenario, names, after);
  run.not_measured.assign(std::begin(kNotMeasured), std::end(kNotMeasured));
  run.digest = after.value("digest", "");
  run.steps = grown("steps");
  run.stale_completions = grown("stale_completions");
  run.protocol_errors = grown("protocol_errors");
  run.refused_proposals = grown("refused_proposals");
  run.followed_requests = grown("followed_requests");
  run.followed_hits = grown("followed_hits");
  run.followed_bound_hits = grown("followed_bound_hits");
  run.cluster.nodes = 1;
  run.cluster.cores = after.value("workers_most", std::uint64_t{0});
  run.cluster.gpus = scenario.cluster.gpus();
  run.cluster.cache_bytes = after.value("planned_bytes", std::uint64_t{0});
  run.cluster.nvme_bytes = after.value("spill_limit_bytes", std::uint64_t{0});
  run.remark = remark(scenario, names, time_scale, after);

  output::Aggregate& sum = run.aggregate;
  double ranks_s = 0, stall_s = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const input::JobModel& model = scenario.jobs[i];
    output::JobResult job = outcomes[i].result;
    job.name = model.name;
    job.user = model.user;
    job.dataset = dataset_of(scenario, model).name;
    run.makespan_s = std::max(run.makespan_s, job.ended_s);
    const auto ranks = static_cast<double>(job.ranks);
    ranks_s += ranks * (job.compute_s + job.stall_s + job.idle_s);
    stall_s += ranks * job.stall_s;
    sum.samples += job.samples;
    sum.repeats += outcomes[i].repeats;
    if (run.failure.empty() && !outcomes[i].wrong.empty())
      run.failure = fmt::format("job {}: {}", model.name, outcomes[i].wrong);
    run.jobs.push_back(std::move(job));
  }
  run.wall_s = run.makespan_s;
  sum.samples_requested = sum.preparations = grown("prepared_samples");
  sum.samples_read = grown("read_samples");
  sum.storage_bytes = grown("read_bytes");
  sum.storage_reads = grown("reads");
  sum.store_requests = grown("device_reads");
  sum.nvme_bytes = grown("spill_read_bytes");
  sum.nvme_written_bytes = grown("spill_written_bytes");
  sum.failed_reads = grown("failed_reads");
  sum.replaced_samples = grown("corrupt_samples");
  sum.prepared_blocks = grown("prepared_blocks");
  sum.remade_blocks = grown("remakes");
  sum.preparation_s = after.value("preparing_s", 0.) - before.value("preparing_s", 0.);
  if (run.makespan_s > 0) sum.samples_per_s = static_cast<double>(sum.samples) / run.makespan_s;
  if (ranks_s > 0) sum.stall_fraction = stall_s / ranks_s;
  sum.hit_ratio = output::hit_ratio(sum.samples_read, sum.samples_requested);
  sum.au = output::mean_au(run.jobs);
  output::count_completions(run.jobs, sum);
  return run;
}

}  // namespace batchflow::ctl
