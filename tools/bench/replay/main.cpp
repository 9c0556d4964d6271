// Cost of replaying months of a cluster, and what its grain leaves out:
// ./dev bench replay [--all] [--check]
//
// The usual made trace of Philly's size with the `mixed` overlay, one policy on one core, each in a
// process of its own: 10^3 to 10^5 jobs as they come in 75 days, and with `--all` 10^6 in 750. Then
// a window at two grains. `--check` compares the grains alone, with fewer seeds, for the tests.
// a window at two grains. `--check` compares the grains alone, with fewer seeds, for the tests.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/input/yaml.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "sim/forked_runs.h"
#include "sim/world/world.h"
#include "tools/bench/process_cost.h"
#include "tools/bench/replay/grain.h"
#include "traces/job_synth.h"

namespace batchflow::bench {
namespace {

struct Cost {
  double cpu_s = 0;
  double memory_mib = 0;
  unsigned long long steps = 0;
  unsigned long long flows = 0;
  unsigned long long blocks = 0;
};

Cost replay(std::uint64_t jobs, const std::string& preset) {
  const auto work = [&](const sim::ForkedRuns::ReportProgress&) {
    traces::SynthOptions options;
    options.jobs = jobs;
    options.days = std::max<std::uint64_t>(1, jobs * 75 / 100'000);
    const traces::JobTrace trace = traces::synthesize_jobs(traces::usual_job_model(), options);
    config::ConfigNode tree;
    input::apply_override(tree, "cluster=philly");
    input::apply_override(tree, "engine={preset: " + preset + "}");
    input::resolve_names(tree);
    sim::LeftOut out;
    const input::Scenario scenario =
        sim::replay_scenario(input::read_cluster_and_engine(tree), trace,
                             input::read_overlay(input::load_overlay("mixed")), {}, {}, out);
    const double before_s = cpu_s();
    world::World world(scenario, policies::policy_list(), {});
    const output::RunResult run = world.run();
    if (!run.failure.empty()) throw ConfigError(run.failure);
    return fmt::format("{} {} {} {} {}", cpu_s() - before_s, memory_mib(), run.steps,
                       world.flows_started(), run.aggregate.prepared_blocks);
  };
  const auto outcomes = sim::ForkedRuns::run({work}, 1, [](const sim::RunProgress&) {});
  if (!outcomes[0].done) throw ConfigError(outcomes[0].problem + outcomes[0].failure);
  Cost cost;
  std::sscanf(outcomes[0].text.c_str(), "%lf %lf %llu %llu %llu", &cost.cpu_s, &cost.memory_mib,
              &cost.steps, &cost.flows, &cost.blocks);
  return cost;
}

void scale(bool all) {
  fmt::print("{:<12} {:>9} {:>9} {:>9} {:>11} {:>9} {:>11} {:>8} {:>7}\n", "preset", "jobs",
             "CPU s", "us a job", "steps", "us a step", "flows", "blocks", "MiB");
  for (const char* preset : {"default", "independent"}) {
    for (const std::uint64_t jobs : {1'000ull, 10'000ull, 100'000ull, 1'000'000ull}) {
      if (jobs > 100'000 && !all) continue;
      const Cost cost = replay(jobs, preset);
      fmt::print("{:<12} {:>9} {:>9.2f} {:>9.0f} {:>11} {:>9.1f} {:>11} {:>8} {:>7.0f}\n", preset,
                 jobs, cost.cpu_s, cost.cpu_s * 1e6 / static_cast<double>(jobs), cost.steps,
                 cost.cpu_s * 1e6 / static_cast<double>(cost.steps), cost.flows, cost.blocks,
                 cost.memory_mib);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  using namespace batchflow;
  using namespace batchflow::sim;
  bool all = false;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    all = all || std::strcmp(argv[i], "--all") == 0;
    check = check || std::strcmp(argv[i], "--check") == 0;
    if (std::strcmp(argv[i], "--all") != 0 && std::strcmp(argv[i], "--check") != 0) {
      fmt::print(stderr, "bench_replay: unknown argument '{}'; write --all, --check or nothing\n",
                 argv[i]);
      return 2;
    }
  }
  try {
    if (!check) bench::scale(all);
    return bench::compare_grains(check ? 4 : 16) ? 0 : 1;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "bench_replay: {}\n", error.what());
    return 1;
  }
}
