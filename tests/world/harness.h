// Scenarios written in a test, simulated in a process of their own (SimGrid has one clock a
// process), and checked for what holds in every run.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "programs/input/scenario.h"
#include "programs/input/yaml.h"
#include "sim/forked_runs.h"
#include "sim/simulate.h"

namespace batchflow::test {

// The answer of `work`, run in a child.
inline std::string in_child(const std::function<std::string()>& work) {
  const auto outcomes =
      sim::ForkedRuns::run({[&](const sim::ForkedRuns::ReportProgress&) { return work(); }}, 1,
                           [](const sim::RunProgress&) {});
  REQUIRE_MESSAGE(outcomes[0].done, outcomes[0].problem, outcomes[0].failure);
  return outcomes[0].text;
}

// A scenario of one node with what a test changes: lines of YAML, and overrides.
struct Small {
  std::uint64_t samples = 100;
  std::string bytes = "1000";
  std::string node = "cores: 1, gpus: 16, memory: 1gb";  // of the only node
  std::string store = "{}";
  std::string steps = "[]";
  std::vector<std::string> jobs = {};  // each in braces, `dataset` and `pipeline` left out
  std::string more = "";               // top-level keys
  std::vector<std::string> set = {};

  std::string yaml() const {
    std::string text = fmt::format(
        "cluster:\n  nodes: [{{name: node, {}}}]\n  store: {}\n"
        "datasets: [{{name: data, samples: {}, bytes: {}}}]\n"
        "pipelines: [{{name: train, steps: {}}}]\njobs:\n",
        node, store, samples, bytes, steps);
    for (const std::string& job : jobs) {
      text += fmt::format("  - {{dataset: data, pipeline: train, {}}}\n", job);
    }
    return text + more;
  }
};

inline input::Scenario scenario_of(const std::string& yaml,
                                   const std::vector<std::string>& set = {}) {
  config::ConfigNode tree = input::parse_yaml(yaml, "test.yaml");
  // Times are worked out by hand, so nothing varies that a test does not vary.
  if (tree.find("jitter") == nullptr) input::apply_override(tree, "jitter={arrival: 0s, step: 0}");
  for (const std::string& text : set) input::apply_override(tree, text);
  return input::read_scenario(tree);
}

// Validation check 22, in every run. Deliveries are jobs x samples x epochs. A rank's time is what
// it computes, and waits for its batch, for the others, and for a lost node. Nothing is prepared
// that was not asked for. Without faults nothing fails, and no event to the engine was wrong.
inline void check_conservation(const input::Scenario& scenario, const output::RunResult& run) {
  CHECK(run.failure.empty());
  CHECK(run.protocol_errors == 0);
  CHECK(run.refused_proposals == 0);
  CHECK(run.aggregate.repeats == 0);
  CHECK(run.aggregate.preparations <= run.aggregate.samples_requested);
  if (scenario.faults.empty()) {
    // A leaving job cancels preparations. Where one had not begun, no preparation asks for the
    // samples that were read for it.
    const bool all_done =
        std::all_of(run.jobs.begin(), run.jobs.end(),
                    [](const output::JobResult& job) { return job.state == "done"; });
    if (all_done) {
      CHECK(run.aggregate.samples_read <= run.aggregate.samples_requested);
      CHECK(run.aggregate.cancelled_preparation_s == 0);
    }
    const bool some_listed =
        std::any_of(scenario.jobs.begin(), scenario.jobs.end(),
                    [](const input::JobModel& job) { return job.order == Order::listed; });
    if (scenario.ends_after.count() == 0 && run.aggregate.cancelled_preparation_s == 0 &&
        !some_listed)
      CHECK(run.aggregate.preparations == run.aggregate.samples_requested);
    CHECK(run.aggregate.cancelled_read_bytes == 0);
    CHECK(run.aggregate.failed_reads == 0);
    CHECK(run.aggregate.lost_samples == 0);
  }
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    const output::JobResult& job = run.jobs[i];
    CAPTURE(job.name);
    CHECK(job.compute_s + job.stall_s + job.idle_s + job.down_s ==
          doctest::Approx(job.time_s).epsilon(1e-9));
    if (job.state != "done" || scenario.jobs[i].drop_last) continue;
    const auto& dataset = scenario.datasets[static_cast<std::size_t>(scenario.jobs[i].dataset)];
    const std::uint64_t draws = scenario.jobs[i].mixture.draws;
    CHECK(job.samples == (draws > 0 ? draws : dataset.samples) * scenario.jobs[i].epochs);
    CHECK(job.epochs == scenario.jobs[i].epochs);
  }
}

inline output::RunResult simulate_text(const std::string& yaml,
                                       const std::vector<std::string>& set = {}) {
  const input::Scenario scenario = scenario_of(yaml, set);
  const output::RunResult run =
      output::decode_run(in_child([&] { return output::encode_run(sim::simulate(scenario, {})); }));
  check_conservation(scenario, run);
  return run;
}

inline output::RunResult simulate_small(const Small& small) {
  return simulate_text(small.yaml(), small.set);
}

// Equal to the nanosecond.
inline doctest::Approx exactly(double seconds) {
  return doctest::Approx(seconds).epsilon(1e-12).scale(1000);
}

}  // namespace batchflow::test
