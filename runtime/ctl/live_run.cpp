#include "runtime/ctl/live_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/order/permutation.h"
#include "runtime/client/c_interface.h"

namespace batchflow::ctl {
namespace {

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
          fmt::format("job '{}': {} exemplars, and a buffer of a service holds {}; write fewer",
                      job.name, job.exemplars, int{BF_EXEMPLARS_MOST}));
    if (job.mixture.sources > 0)
      throw ConfigError(fmt::format(
          "job '{}': mixtures of a scenario are only simulated; leave it out with mixture: {{}}",
          job.name));
    if (job.order == Order::live)
      throw ConfigError(fmt::format(
          "job '{}': its dataset grows, which is only simulated; make a feed of the service and "
          "read it by batchflow.Live",
          job.name));
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
    toy.dataset = names.dataset(scenario.datasets[static_cast<std::size_t>(job.dataset)].name);
    toy.pipeline = names.pipeline(scenario.pipelines[static_cast<std::size_t>(job.pipeline)].name);
    toy.order = order_of(job);
    toy.has_shuffle_seed = job.has_shuffle_seed;
    toy.shuffle_seed = job.shuffle_seed;
    toy.node_local = job.node_local;
    toy.runs = job.runs;
    toy.rehearsed = job.rehearsed;
    if (!job.rehearsal_policy.empty()) {
      toy.buffer_exemplars = job.exemplars;
      toy.buffer_policy = job.rehearsal_policy;
    } else if (job.exemplars > 0) {
      toy.exemplars = exemplars_of(scenario, toys.size() - 1);
    }
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

}  // namespace batchflow::ctl
