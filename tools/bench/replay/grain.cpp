#include "tools/bench/replay/grain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "programs/input/yaml.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "sim/planned_runs.h"

namespace batchflow::bench {

namespace {

// The two kinds of nodes of Philly and its store, in proportion.
constexpr char kCluster[] =
    "cluster:\n"
    "  name: 128 GPUs\n"
    "  links: [{name: spine, bytes_per_s: 40gb}]\n"
    "  nodes:\n"
    "    - {name: two, count: 16, cores: 12, gpus: 2, memory: 112gb, cache: 50%,\n"
    "       nic_bytes_per_s: 1.25gb, link: spine}\n"
    "    - {name: eight, count: 12, cores: 48, gpus: 8, memory: 448gb, cache: 50%,\n"
    "       nic_bytes_per_s: 5gb, link: spine}\n"
    "  store: {bytes_per_s: 5gb, reader_bytes_per_s: 500mb, latency: 5ms, latency_jitter: 1,\n"
    "          operations_ahead: 16}\n";

// Sixty jobs of nine users within forty minutes, with one to sixteen GPUs and a minute and a half
// to twenty-five minutes: as many batches as can be simulated one by one.
traces::JobTrace window() {
  constexpr std::uint32_t kGpus[] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16};
  traces::JobTrace trace;
  trace.name = "window";
  Random random(7);
  for (std::uint32_t i = 0; i < 60; ++i) {
    traces::JobRecord job;
    job.submit_ns = static_cast<traces::TraceTime>(random.below(2400 * traces::kNanosPerSecond));
    job.start_ns = job.submit_ns;
    // Between the ends, evenly by the logarithm.
    const double way = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    job.duration_ns = static_cast<std::int64_t>(90e9 * std::exp(way * std::log(1500. / 90)));
    job.gpus_hundredths = 100 * kGpus[random.below(std::size(kGpus))];
    job.id = trace.texts.keep(fmt::format("job{}", i));
    job.user = trace.texts.intern(fmt::format("user{}", i % 9));
    trace.jobs.push_back(job);
  }
  std::sort(trace.jobs.begin(), trace.jobs.end(),
            [](const traces::JobRecord& a, const traces::JobRecord& b) {
              return a.submit_ns < b.submit_ns;
            });
  return trace;
}

// How far bytes read from the store may be apart, as docs/replay.md states. A policy that divides
// memory by measured loads sees other loads where blocks are coarse.
constexpr double kStorageMost = 0.1;
constexpr double kStorageMostMeasured = 0.25;

struct Policy {
  const char* name;
  const char* engine;
  double storage_most = kStorageMost;
};
constexpr Policy kPolicies[] = {
    {"default", "{}", kStorageMostMeasured},
    {"fixed", "{preset: fixed}"},
    {"independent", "{preset: independent}"},
    {"equal shares", "{preset: fixed, policies: {allocation: equal}}"},
    {"nodes share nothing", "{preset: fixed, share_nodes: false, helper_nodes: 0}"},
};

// Means over seeds.
struct Figures {
  double samples_per_s = 0;
  double storage_bytes = 0;
  double stall = 0;  // of the GPUs' time: waiting for data, or for other ranks that wait for data
  double completion_s = 0;
  double cpu_s = 0;
};

Figures figures_of(const output::RunResult& run) {
  Figures of;
  double time_s = 0;
  double lost_s = 0;
  for (const output::JobResult& job : run.jobs) {
    time_s += job.time_s * static_cast<double>(job.ranks);
    lost_s += (job.stall_s + job.idle_s) * static_cast<double>(job.ranks);
    of.completion_s += (job.ended_s - job.arrived_s) / static_cast<double>(run.jobs.size());
  }
  of.samples_per_s = run.aggregate.samples_per_s;
  of.storage_bytes = static_cast<double>(run.aggregate.storage_bytes);
  of.stall = lost_s / time_s;
  of.cpu_s = run.wall_s;
  return of;
}

std::vector<Figures> run(const traces::JobTrace& trace, const sim::ReplayGrain& grain,
                         std::uint64_t seeds) {
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("mixed"));
  std::vector<sim::PlannedRun> planned;
  for (const Policy& policy : kPolicies) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      config::ConfigNode tree =
          input::parse_yaml(std::string(kCluster) + "engine: " + policy.engine + "\n" +
                                fmt::format("seed: {}\n", seed),
                            "window");
      sim::LeftOut out;
      planned.push_back({policy.name, sim::replay_scenario(input::read_cluster_and_engine(tree),
                                                           trace, overlay, grain, {}, out)});
    }
  }
  const auto results = sim::run_all(planned, {});
  std::vector<Figures> means(std::size(kPolicies));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Figures one = figures_of(*results[i]);
    Figures& mean = means[i / seeds];
    const auto n = static_cast<double>(seeds);
    mean.samples_per_s += one.samples_per_s / n;
    mean.storage_bytes += one.storage_bytes / n;
    mean.stall += one.stall / n;
    mean.completion_s += one.completion_s / n;
    mean.cpu_s += one.cpu_s / n;
  }
  return means;
}

// The other bounds that docs/replay.md states.
constexpr double kThroughputMost = 0.05;
constexpr double kStallMost = 0.03;  // points
constexpr double kCompletionMost = 0.05;
// Policies with stalls so far apart at the fine grain have the same order at the other grain.
constexpr double kApart = 0.02;

}  // namespace

bool compare_grains(std::uint64_t seeds) {
  const traces::JobTrace trace = window();
  const std::vector<Figures> coarse = run(trace, {}, seeds);
  sim::ReplayGrain by_batches;
  by_batches.fine = true;
  const std::vector<Figures> fine = run(trace, by_batches, seeds);
  bool good = true;
  fmt::print("60 jobs on 128 GPUs, {} seeds: the default grain over batch by batch\n", seeds);
  fmt::print("{:<20} {:>10} {:>8} {:>11} {:>16} {:>14}\n", "policy", "samples/s", "storage",
             "completion", "GPU time stalled", "CPU time");
  for (std::size_t i = 0; i < fine.size(); ++i) {
    const auto ratio = [&](double Figures::*of) { return coarse[i].*of / fine[i].*of; };
    fmt::print("{:<20} {:>10.3f} {:>8.3f} {:>11.3f} {:>7.1f} % : {:>4.1f} % {:>5.2f} : {:.1f} s\n",
               kPolicies[i].name, ratio(&Figures::samples_per_s), ratio(&Figures::storage_bytes),
               ratio(&Figures::completion_s), 100 * coarse[i].stall, 100 * fine[i].stall,
               coarse[i].cpu_s, fine[i].cpu_s);
    good = good && std::abs(ratio(&Figures::samples_per_s) - 1) <= kThroughputMost &&
           std::abs(ratio(&Figures::storage_bytes) - 1) <= kPolicies[i].storage_most &&
           std::abs(ratio(&Figures::completion_s) - 1) <= kCompletionMost &&
           std::abs(coarse[i].stall - fine[i].stall) <= kStallMost;
    for (std::size_t j = 0; j < fine.size(); ++j) {
      if (fine[i].stall + kApart < fine[j].stall && coarse[i].stall >= coarse[j].stall) {
        fmt::print("{} and {} are in another order\n", kPolicies[i].name, kPolicies[j].name);
        good = false;
      }
    }
  }
  return good;
}

}  // namespace batchflow::bench
