// Cost of simulating, on one core: ./dev bench sim [--small]
//
// Each line is a scenario in a process of its own, with its bound; the exit code is 1 if a bound is
// exceeded. `--small` runs a hundredth, for the tests: there the bounds mean little.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "programs/output/packed_runs.h"
#include "sim/forked_runs.h"
#include "sim/simulate.h"
#include "tools/bench/process_cost.h"

namespace batchflow::bench {
namespace {

struct Cost {
  double cpu_s = 0;
  double memory_mib = 0;
  double batches = 0;
  double steps = 0;  // of the engine
  std::string digest;
};

Cost measure(const config::ConfigNode& base, const std::vector<std::string>& set) {
  const auto outcomes = sim::ForkedRuns::run(
      {[&](const sim::ForkedRuns::ReportProgress&) {
        const double before_s = cpu_s();
        config::ConfigNode tree = base;
        for (const std::string& text : set) input::apply_override(tree, text);
        const output::RunResult run = sim::simulate(input::read_scenario(tree), {});
        double batches = 0;
        for (const output::JobResult& job : run.jobs) {
          if (job.state != "done")
            throw ConfigError(fmt::format("{}: {} {}", job.name, job.state, job.refusal));
          batches += static_cast<double>(job.batches);
        }
        return fmt::format("{} {} {} {} {}", cpu_s() - before_s, memory_mib(), batches, run.steps,
                           run.digest);
      }},
      1, [](const sim::RunProgress&) {});
  if (!outcomes[0].done) throw ConfigError(outcomes[0].problem + outcomes[0].failure);
  Cost cost;
  char digest[32] = {};
  std::sscanf(outcomes[0].text.c_str(), "%lf %lf %lf %lf %31s", &cost.cpu_s, &cost.memory_mib,
              &cost.batches, &cost.steps, digest);
  cost.digest = digest;
  return cost;
}

bool kept = true;

Cost line(const std::string& name, const config::ConfigNode& base,
          const std::vector<std::string>& set, double bound_s) {
  const Cost cost = measure(base, set);
  const bool good = cost.cpu_s <= bound_s;
  kept = kept && good;
  fmt::print("{:<44} {:>9.3f} s of {:>5} s  {:>10.0f} batches/s  {:>6.0f} MiB  {}{}\n", name,
             cost.cpu_s, bound_s, cost.batches / cost.cpu_s, cost.memory_mib, cost.digest,
             good ? "" : "  TOO SLOW");
  std::fflush(stdout);
  return cost;
}

// Many jobs that compute on a large cluster, each on a few GPUs: their cost is timers.
config::ConfigNode large_cluster(int jobs) {
  return input::parse_yaml(
      fmt::format("cluster:\n  nodes: [{{name: node, count: 312, cores: 32, gpus: 8, memory: 512gb,"
                  " cache: 20%}}]\n  store: {{bytes_per_s: 200gb, latency: 1ms, "
                  "operations_ahead: 64}}\n"
                  "datasets: [{{name: data, samples: 1280000, bytes: 100kb}}]\n"
                  "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
                  "jobs: [{{dataset: data, pipeline: train, count: {}, ranks: 4, batch: 2500, "
                  "step: 1s, epochs: 1}}]\n"
                  "grain: {{samples_per_item: 2500, items_per_block: 16}}\n",
                  jobs),
      "large-cluster");
}

// So many jobs of one GPU share the blocks of a dataset, on nodes of eight. All of them together
// train on as many batches, however many jobs there are.
config::ConfigNode sharers(int jobs, int batches) {
  constexpr int kBlocks = 256;
  return input::parse_yaml(
      fmt::format("cluster:\n  nodes: [{{name: node, count: {}, cores: 32, gpus: 8, memory: 512gb,"
                  " cache: 100%}}]\n  store: {{bytes_per_s: 200gb, latency: 1ms, "
                  "operations_ahead: 64}}\n"
                  "datasets: [{{name: data, samples: {}, bytes: 100kb}}]\n"
                  "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
                  "jobs: [{{dataset: data, pipeline: train, count: {}, batch: 256, step: 1s, "
                  "step_jitter: 0.1, every: 1ms, epochs: {}}}]\n"
                  "grain: {{samples_per_item: 256, items_per_block: 1}}\n",
                  jobs / 8, kBlocks * 256, jobs, std::max(1, batches / kBlocks / jobs)),
      "sharers");
}

// What an engine step and a batch cost, with all of the simulator, must grow little with the jobs
// that share a dataset.
void step_by_sharers(bool small) {
  constexpr double kMost = 1.5;
  double first_us = 0;
  for (const int jobs : {64, 256, 1024}) {
    const Cost cost = line(fmt::format("{} jobs share a dataset", jobs),
                           sharers(small ? jobs / 8 : jobs, small ? 0 : 1 << 18), {}, 20);
    const double step_us = cost.cpu_s / cost.steps * 1e6;
    if (jobs == 64) first_us = step_us;
    fmt::print("{:.2f} us a step, {:.2f} us a batch: {:.2f} of what it is with 64\n", step_us,
               cost.cpu_s / cost.batches * 1e6, step_us / first_us);
    if (!small) kept = kept && step_us <= kMost * first_us;
  }
}

// From the process that simulated to files: packed, unpacked, as JSON and as CSV.
void results_of(std::size_t jobs, double bound_s) {
  const auto outcomes = sim::ForkedRuns::run(
      {[&](const sim::ForkedRuns::ReportProgress&) {
        const double before_s = cpu_s();
        output::RunResult run;
        for (std::size_t i = 0; i < jobs; ++i) {
          output::JobResult& job = run.jobs.emplace_back();
          job.name = fmt::format("job-{}", i);
          job.user = "user-17";
          job.dataset = "imagenet";
          job.samples = 1000 * i;
          job.arrived_s = static_cast<double>(i) / 7;
          job.time_s = job.ended_s = job.arrived_s * 1.1;
          job.compute_s = job.stall_s = job.samples_per_s = job.au = job.arrived_s / 3;
        }
        run.jobs = output::unpack_run(output::pack_run(run)).jobs;
        std::size_t bytes = 0;
        const output::Sink sink = [&bytes](std::string_view piece) { bytes += piece.size(); };
        output::results_json({&run, 1}, "run", BATCHFLOW_VERSION)(sink);
        output::jobs_csv({&run, 1})(sink);
        return fmt::format("{} {} {}", cpu_s() - before_s, memory_mib(), bytes);
      }},
      1, [](const sim::RunProgress&) {});
  if (!outcomes[0].done) throw ConfigError(outcomes[0].failure);
  Cost cost;
  double bytes = 0;
  std::sscanf(outcomes[0].text.c_str(), "%lf %lf %lf", &cost.cpu_s, &cost.memory_mib, &bytes);
  const bool good = cost.cpu_s <= bound_s && cost.memory_mib < 1024;
  kept = kept && good;
  fmt::print("{:<44} {:>9.3f} s of {:>5} s  {:>10.0f} MB         {:>6.0f} MiB  {}\n",
             fmt::format("results of {} jobs", jobs), cost.cpu_s, bound_s, bytes / 1e6,
             cost.memory_mib, good ? "" : "TOO MUCH");
}

int run(bool small) {
  const config::ConfigNode eight = input::load_scenario("eight-jobs");
  const int epochs = small ? 1 : 20;
  const auto with = [&](std::vector<std::string> set, int count) {
    set.push_back(fmt::format("jobs.0.epochs={}", count));
    if (small) set.push_back("datasets.0.samples=12800");
    return set;
  };
  const std::vector<std::string> fine = {"grain.samples_per_item=1", "grain.items_per_block=256"};
  line("start-up: one batch", eight,
       {"jobs.0.epochs=1", "jobs.0.count=1", "datasets.0.samples=256"}, 0.1);
  line("node x 8 jobs x 20 epochs, coarse items", eight, with({}, epochs), 10);
  line("node x 8 jobs x 20 epochs, each sample", eight, with(fine, epochs), 40);
  line("the same without sharing, coarse items", eight, with({"engine.preset=independent"}, epochs),
       40);
  Cost one = line("cost of 1 epoch", eight, with({}, 1), 10);
  // It ends within a fifth of a second, so a single run says little.
  constexpr int kRounds = 5;
  for (int i = 1; i < kRounds; ++i) one.cpu_s += measure(eight, with({}, 1)).cpu_s;
  one.cpu_s /= kRounds;
  const Cost hundred = line("cost of 100 epochs", eight, with({}, small ? 3 : 100), 60);
  const double ratio = hundred.cpu_s / hundred.batches / (one.cpu_s / one.batches);
  fmt::print("a batch of the longer run costs {:.2f} of one of the shorter\n", ratio);
  if (!small) kept = kept && ratio <= 1.2;
  const Cost large =
      line("2,496 GPUs, 624 jobs of 4 ranks", large_cluster(small ? 10 : 624), {}, 60);
  kept = kept && large.memory_mib < 1024;
  step_by_sharers(small);
  results_of(small ? 10'000 : 1'000'000, 20);
  return small || kept ? 0 : 1;
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  try {
    return batchflow::bench::run(argc > 1 && std::strcmp(argv[1], "--small") == 0);
  } catch (const batchflow::ConfigError& error) {
    std::fprintf(stderr, "bench_sim: %s\n", error.what());
    return 2;
  }
}
