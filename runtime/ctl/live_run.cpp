#include "runtime/ctl/live_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/engine/policy_texts.h"
#include "core/order/permutation.h"
#include "nlohmann/json.hpp"
#include "programs/config/engine_settings.h"
#include "programs/output/output.h"
#include "programs/output/results.h"
#include "runtime/client/c_interface.h"
#include "runtime/sources/npy.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

constexpr std::uint32_t kRanksMost = 256;  // a thread each

bf_order order_of(const input::JobModel& job) {
  if (const auto option = client::option_of(job.order)) return *option;
  throw ConfigError(
      fmt::format("job '{}': a listed order cannot run live; write strict or relaxed", job.name));
}

void check(const input::Scenario& scenario) {
  std::uint64_t ranks = 0;
  for (const input::JobModel& job : scenario.jobs) {
    ranks += job.ranks;
    if (job.exemplars > BF_EXEMPLARS_MOST)
      throw ConfigError(
          fmt::format("job '{}': {} exemplars, and a live buffer holds {}; write fewer", job.name,
                      job.exemplars, int{BF_EXEMPLARS_MOST}));
    if (job.importance.reports())
      throw ConfigError(fmt::format(
          "job '{}': scores are only simulated; leave them out with importance: {{}}", job.name));
  }
  if (ranks > kRanksMost)
    throw ConfigError(
        fmt::format("{} ranks in all, each a thread, and {} are the most; simulate it, "
                    "or leave jobs out",
                    ranks, kRanksMost));
  if (!scenario.faults.empty())
    throw ConfigError("faults are only simulated; leave them out with --set faults=[]");
  if (scenario.scheduler != input::Scheduler::fifo)
    throw ConfigError("GPUs go to the job that comes first; write --set scheduler=fifo");
  if (scenario.grain.epochs_per_block > 1)
    throw ConfigError(
        "blocks of several epochs are only simulated; write --set grain.epochs_per_block=1");
}

// A buffer at random, of the dataset as the scenario has it; it differs from the simulated one.
std::vector<std::uint64_t> exemplars_of(const input::Scenario& scenario, std::size_t job) {
  const input::JobModel& model = scenario.jobs[job];
  const order::Permutation chosen(
      hash(scenario.seed, job), scenario.datasets[static_cast<std::size_t>(model.dataset)].samples);
  std::vector<std::uint64_t> keys(model.exemplars);
  chosen.fill(0, keys);
  return keys;
}

std::string named(const std::map<std::string, std::string>& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

// What differs from the scenario.
std::string remark(const input::Scenario& scenario, double time_scale, const json& status) {
  std::vector<std::string> parts;
  if (time_scale != 1) parts.push_back(fmt::format("all sleeping times are times {}", time_scale));
  const bool varies = std::any_of(scenario.jobs.begin(), scenario.jobs.end(),
                                  [](const auto& job) { return job.step_spread.ratio > 0; });
  if (varies) parts.push_back("each step takes the mean time of its job's steps");
  if (scenario.cluster.nodes.size() > 1)
    parts.push_back(fmt::format("one node, not {}", scenario.cluster.nodes.size()));
  std::uint64_t cores = 0;
  Bytes cache = 0;
  for (const input::NodeModel& node : scenario.cluster.nodes) {
    cores += node.cores;
    cache += node.cache;
  }
  const std::uint64_t workers = status.value("workers_most", 0u);
  const Bytes bytes = status.value("cache_bytes", Bytes{0});
  if (workers != cores) parts.push_back(fmt::format("{} workers, not {} cores", workers, cores));
  if (bytes != cache) parts.push_back(fmt::format("{} bytes of cache, not {}", bytes, cache));
  const json policies = status.value("policies", json::object());
  engine::visit_policies(scenario.engine.policies,
                         [&](std::string_view kind, const std::string& text) {
                           const std::string live = policies.value(kind, "");
                           if (live != text)
                             parts.push_back(fmt::format("{} by {}, not {}", kind, live, text));
                         });
  // What both have. The rest is of one of them: where reads land, how large its logs may be.
  const json settings = status.value("settings", json::object());
  config::visit_settings(config::text_of(scenario.engine),
                         [&](std::string_view key, std::string_view value) {
                           const std::string live = settings.value(key, "");
                           if (key.starts_with("policies.") || key.starts_with("staging_") ||
                               key.ends_with("_bytes_max") || live.empty() || live == value)
                             return;
                           parts.push_back(fmt::format("{} {}, not {}", key, live, value));
                         });
  std::string all = "run live";
  for (std::size_t i = 0; i < parts.size(); ++i) all += (i == 0 ? ": " : "; ") + parts[i];
  return all;
}

void write_samples(const std::filesystem::path& file, const input::DatasetModel& dataset) {
  // One row for each sample.
  const std::string head =
      sources::npy_head("|u1", fmt::format("({}, {})", dataset.samples, dataset.bytes));
  const Bytes size = dataset.samples * dataset.bytes;
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    if (std::filesystem::file_size(file, error) == head.size() + size) return;
    throw ConfigError(
        fmt::format("{}: is there, and has another size than the scenario says; remove it, "
                    "or name another folder",
                    file.string()));
  }
  std::filesystem::create_directories(file.parent_path(), error);
  output::write_file_atomically(file.string(), [&](const output::Sink& sink) {
    sink(head);
    Random random(hash(dataset.samples, dataset.bytes));
    std::string piece(std::size_t{1} << 16, '\0');
    for (Bytes left = size; left > 0;) {
      for (std::size_t at = 0; at < piece.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.draw();
        std::memcpy(piece.data() + at, &word, sizeof word);
      }
      const auto part = static_cast<std::size_t>(std::min<Bytes>(left, piece.size()));
      sink(std::string_view(piece).substr(0, part));
      left -= part;
    }
  });
}

}  // namespace

std::vector<toys::ToyJob> make_toys(const input::Scenario& scenario, const LiveNames& names,
                                    const std::string& service, double time_scale) {
  check(scenario);
  const auto scaled = [time_scale](Duration duration) {
    return Duration(std::llround(static_cast<double>(duration.count()) * time_scale));
  };
  std::vector<toys::ToyJob> toys;
  for (const input::JobModel& job : scenario.jobs) {
    toys::ToyJob& toy = toys.emplace_back();
    toy.service = service;
    toy.name = fmt::format("{}-{}", job.name, getpid());  // differs from those of another run
    toy.dataset =
        named(names.datasets, scenario.datasets[static_cast<std::size_t>(job.dataset)].name);
    toy.pipeline =
        named(names.pipelines, scenario.pipelines[static_cast<std::size_t>(job.pipeline)].name);
    toy.order = order_of(job);
    toy.has_shuffle_seed = job.has_shuffle_seed;
    toy.shuffle_seed = job.shuffle_seed;
    toy.node_local = job.node_local;
    toy.runs = job.runs;
    toy.rehearsed = job.rehearsed;
    if (job.exemplars > 0) toy.exemplars = exemplars_of(scenario, toys.size() - 1);
    toy.drop_last = job.drop_last;
    toy.batch = job.batch;
    toy.ranks = job.ranks;
    toy.epochs = job.epochs;
    toy.steps = job.steps;
    toy.credits = job.credits;
    toy.weight = job.weight;
    toy.latency_target_s = std::chrono::duration<double>(job.latency_target).count();
    toy.compute = scaled(job.step);
    toy.arrives = scaled(job.arrives.time_since_epoch());
    toy.start_up = scaled(job.start_up);
    toy.leaves_after = scaled(job.leaves_after);
  }
  return toys;
}

output::RunResult live_results(const input::Scenario& scenario,
                               std::span<const toys::ToyOutcome> outcomes, double time_scale,
                               const json& before, const json& after) {
  const auto grown = [&](const char* key) {
    const std::uint64_t end = after.value(key, std::uint64_t{0});
    return end - std::min(end, before.value(key, std::uint64_t{0}));
  };
  output::RunResult run;
  run.scenario = scenario.name;
  run.seed = scenario.seed;
  run.policies.emplace_back("preset", after.value("preset", ""));
  const json policies = after.value("policies", json::object());
  engine::visit_policies(scenario.engine.policies, [&](std::string_view kind, const std::string&) {
    run.policies.emplace_back(kind, policies.value(kind, ""));
  });
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
  run.cluster.cache_bytes = after.value("cache_bytes", std::uint64_t{0});
  run.remark = remark(scenario, time_scale, after);

  output::Aggregate& sum = run.aggregate;
  double ranks_s = 0, stall_s = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const input::JobModel& model = scenario.jobs[i];
    output::JobResult job = outcomes[i].result;
    job.name = model.name;
    job.user = model.user;
    job.dataset = scenario.datasets[static_cast<std::size_t>(model.dataset)].name;
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

std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 20); };
  Bytes all = 0;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    Bytes size = 0;
    if (dataset.bytes == 0)
      throw ConfigError(fmt::format(
          "dataset '{}': its samples have no bytes; there is nothing to make", dataset.name));
    if (dataset.name.empty() || dataset.name.front() == '.' ||
        dataset.name.find('/') != std::string::npos)
      throw ConfigError(fmt::format("dataset '{}': a folder cannot have this name; choose another",
                                    dataset.name));
    if (__builtin_mul_overflow(dataset.samples, dataset.bytes, &size) ||
        __builtin_add_overflow(all, size, &all))
      all = UINT64_MAX;
    if (all > most)
      throw ConfigError(fmt::format(
          "dataset '{}': with {} samples of {} bytes, {:.1f} MiB would be made, and at most "
          "{:.1f} are allowed; raise --make-most, or make it smaller with --set "
          "datasets.N.samples=COUNT",
          dataset.name, dataset.samples, dataset.bytes, mib(all), mib(most)));
  }
  std::map<std::string, std::string> made;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    const std::filesystem::path path = std::filesystem::absolute(folder) / dataset.name;
    write_samples(path / "samples.npy", dataset);
    made[dataset.name] = path.lexically_normal().string();
  }
  return made;
}

}  // namespace batchflow::ctl
