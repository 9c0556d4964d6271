// Simulates scenarios, each in a process of its own, several at a time, with a progress bar. Runs
// with a common beginning can share its simulation. Commands plan the runs and decide what becomes
// of the results.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "programs/input/scenario.h"
#include "programs/output/results.h"
#include "programs/output/terminal.h"
#include "sim/forked_runs.h"
#include "sim/simulate.h"

namespace batchflow::sim {

struct PlannedRun {
  std::string label;
  input::Scenario scenario;
  // Adds what is too large to be kept for all runs at once; called in the process of the run.
  std::function<input::Scenario(input::Scenario)> complete = {};
};

// The random numbers of policies follow the seed of the scenario, unless they were given a seed.
input::Scenario with_next_seed(input::Scenario scenario, std::uint64_t further);

struct RunSettings {
  std::size_t at_once = 0;  // 0: as many as there are cores
  bool series = false;      // results keep their series
  SimulateOptions how = {};
  std::string label = {};  // of the bar; empty: the number of runs
  // The progress in words, beside the bar.
  std::function<std::string(const RunProgress&)> clock = {};
  // Called now and then with the progress of all runs.
  std::function<void(const RunProgress&)> shown = {};
  // Called with each result as it comes, and its index.
  std::function<void(std::size_t, const output::RunResult&)> finished = {};

  std::size_t processes() const;  // at once
};

// By index; none for a run that an interrupt kept from beginning. Throws ConfigError.
std::vector<std::optional<output::RunResult>> run_all(const std::vector<PlannedRun>& planned,
                                                      const RunSettings& settings);

// The bar of several runs.
class RunsBar {
 public:
  RunsBar(std::size_t runs, const RunSettings& settings);
  void show(const RunProgress& progress);

 private:
  const RunSettings& settings_;
  output::ProgressBar bar_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Takes the result of a run out of its outcome, which loses its text; none if the run was not
// begun. Throws ConfigError for bad input.
std::optional<output::RunResult> result_of(const PlannedRun& planned, ForkedRuns::Outcome& outcome);

std::string simulated_text(double simulated_s);  // beside a bar

// All runs that were done or begun, in order.
std::vector<output::RunResult> begun(std::vector<std::optional<output::RunResult>> results);

// Whether a run failed, or refused one of its jobs.
bool has_failed(const output::RunResult& run);

// 0 done, 1 a run failed, 130 interrupted, which it prints.
int exit_code(const std::vector<output::RunResult>& runs, std::size_t asked);

// Runs with a common beginning. The beginning is simulated once; from its end each run goes on in a
// process of its own, with its own differences.
struct Branching {
  input::Scenario beginning;
  Instant at{};
  std::vector<PlannedRun> branches;
  std::vector<std::size_t> indices;  // of their results
};

// The results by index, of `count`, as run_all gives them. The results of a group come together.
std::vector<std::optional<output::RunResult>> run_branches(const std::vector<Branching>& groups,
                                                           std::size_t count,
                                                           const RunSettings& settings);

}  // namespace batchflow::sim
