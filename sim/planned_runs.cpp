#include "sim/planned_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "core/base/config_value.h"
#include "programs/output/exit_codes.h"
#include "programs/output/packed_runs.h"
#include "programs/output/terminal.h"
#include "sim/numbers.h"

namespace batchflow::sim {

namespace {

// What the cluster of a run costs for as long as the run took.
void price(output::RunResult& run, const input::ClusterModel& cluster) {
  if (!cluster.prices) {
    for (const char* field : {"aggregate.cost", "aggregate.cost_per_million_samples"})
      run.not_measured.emplace_back(field);
    return;
  }
  output::Aggregate& sum = run.aggregate;
  sum.cost = cluster.price_per_hour() * (run.makespan_s - run.counted_from_s) / 3600;
  if (sum.samples > 0) {
    sum.cost_per_million_samples = sum.cost * 1e6 / static_cast<double>(sum.samples);
  }
}

std::string simulate_one(const PlannedRun& planned, const RunSettings& settings,
                         const ForkedRuns::ReportProgress& report) {
  SimulateOptions how = settings.how;
  how.goes_on = report;
  const bool is_whole = !planned.complete;
  const input::Scenario completed =
      is_whole ? input::Scenario{} : planned.complete(planned.scenario);
  const input::Scenario& scenario = is_whole ? planned.scenario : completed;
  output::RunResult run = simulate(scenario, how);
  price(run, scenario.cluster);
  run.label = planned.label;
  if (!settings.series) run.series.clear();  // no report draws it
  return output::pack_run(run);
}

}  // namespace

input::Scenario with_next_seed(input::Scenario scenario, std::uint64_t further) {
  const bool follows = scenario.engine.seed == scenario.seed;
  scenario.seed += further;
  if (follows) scenario.engine.seed = scenario.seed;
  return scenario;
}

std::size_t RunSettings::processes() const {
  return at_once > 0 ? at_once : std::max(1u, std::thread::hardware_concurrency());
}

std::optional<output::RunResult> result_of(const PlannedRun& planned,
                                           ForkedRuns::Outcome& outcome) {
  if (!outcome.problem.empty()) throw ConfigError(outcome.problem);
  if (!outcome.unwritten.empty()) throw output::OutputError(outcome.unwritten, 0);
  if (outcome.done) return output::unpack_run(std::exchange(outcome.text, {}));
  if (outcome.failure.empty()) return std::nullopt;
  output::RunResult run;
  run.label = planned.label;
  run.scenario = planned.scenario.name;
  run.seed = planned.scenario.seed;
  run.failure = outcome.failure;
  return run;
}

std::string simulated_text(double simulated_s) {
  return fmt::format("{} simulated", time_text(simulated_s));
}

RunsBar::RunsBar(std::size_t runs, const RunSettings& settings)
    : settings_(settings),
      bar_(!settings.label.empty() ? settings.label
           : runs == 1             ? "simulating"
                                   : fmt::format("simulating {} runs", runs)) {}

void RunsBar::show(const RunProgress& progress) {
  const double spent_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  std::string beside =
      settings_.clock ? settings_.clock(progress) : simulated_text(progress.simulated_s);
  // An estimate from less would be too inexact.
  if (spent_s > 2 && progress.done > 0.01) {
    beside += fmt::format(", {} left",
                          time_text(std::ceil(spent_s * (1 - progress.done) / progress.done)));
  }
  bar_.show(progress.done, beside);
  if (settings_.shown) settings_.shown(progress);
}

std::vector<std::optional<output::RunResult>> run_all(const std::vector<PlannedRun>& planned,
                                                      const RunSettings& settings) {
  std::vector<ForkedRuns::Work> works;
  for (const PlannedRun& run : planned) {
    works.push_back([&](const ForkedRuns::ReportProgress& report) {
      return simulate_one(run, settings, report);
    });
  }
  RunsBar bar(planned.size(), settings);
  std::vector<std::optional<output::RunResult>> results(planned.size());
  ForkedRuns::run(
      works, static_cast<unsigned>(settings.processes()),
      [&](const RunProgress& progress) { bar.show(progress); },
      [&](std::size_t i, ForkedRuns::Outcome& outcome) {
        results[i] = result_of(planned[i], outcome);
        if (results[i] && settings.finished) settings.finished(i, *results[i]);
      });
  return results;
}

std::vector<output::RunResult> begun(std::vector<std::optional<output::RunResult>> results) {
  std::vector<output::RunResult> runs;
  for (std::optional<output::RunResult>& result : results) {
    if (result) runs.push_back(std::move(*result));
  }
  return runs;
}

bool has_failed(const output::RunResult& run) {
  return !run.failure.empty() ||
         std::any_of(run.jobs.begin(), run.jobs.end(),
                     [](const output::JobResult& job) { return !job.refusal.empty(); });
}

int exit_code(const std::vector<output::RunResult>& runs, std::size_t asked) {
  const bool interrupted = std::any_of(
      runs.begin(), runs.end(), [](const output::RunResult& run) { return run.interrupted; });
  if (runs.size() < asked || interrupted) {
    output::say(runs.empty()
                    ? "batchflow-sim: interrupted before there were results"
                    : "batchflow-sim: interrupted; what is written are the results so far");
    return output::kInterrupted;
  }
  return std::any_of(runs.begin(), runs.end(), has_failed) ? output::kFailed : 0;
}

namespace {

// Runs in the process of a group: simulates the beginning, and then starts a process for each
// branch.
std::string run_group(const Branching& group, std::size_t at_once,
                      const ForkedRuns::ReportProgress& report) {
  const ForkedRuns::ReportProgress* current =
      &report;  // in the process of a branch: that of the branch
  SimulateOptions how;
  how.goes_on = [&current](const RunProgress& progress) { return (*current)(progress); };
  const auto simulation = start_simulation(group.beginning, how);
  if (!simulation->run_until(group.at)) {
    if (!report({})) return output::pack_runs({});  // interrupted
    throw ConfigError("key 'warm_start.at': all jobs are done before; write an earlier time");
  }
  std::vector<ForkedRuns::Work> works;
  for (const PlannedRun& branch : group.branches) {
    works.push_back([&](const ForkedRuns::ReportProgress& own) {
      current = &own;
      simulation->change_to(branch.scenario);
      output::RunResult run = simulation->run();
      price(run, branch.scenario.cluster);
      run.label = branch.label;
      run.series.clear();
      return output::pack_run(run);
    });
  }
  bool goes_on = true;
  auto outcomes = ForkedRuns::run(
      works, static_cast<unsigned>(at_once),
      [&](const RunProgress& progress) { goes_on = report(progress); }, {},
      [&] { return goes_on; });
  output::OptionalRuns results;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    results.push_back(result_of(group.branches[i], outcomes[i]));
  }
  return output::pack_runs(results);
}

}  // namespace

std::vector<std::optional<output::RunResult>> run_branches(const std::vector<Branching>& groups,
                                                           std::size_t count,
                                                           const RunSettings& settings) {
  const std::size_t at_once = settings.processes();
  const std::size_t groups_at_once = std::min(at_once, groups.size());
  std::vector<ForkedRuns::Work> works;
  for (const Branching& group : groups) {
    works.push_back([&](const ForkedRuns::ReportProgress& report) {
      return run_group(group, std::max<std::size_t>(1, at_once / groups_at_once), report);
    });
  }
  std::vector<std::optional<output::RunResult>> results(count);
  output::ProgressBar bar(fmt::format("simulating {} branches", count));
  ForkedRuns::run(
      works, static_cast<unsigned>(groups_at_once),
      [&](const RunProgress& progress) {
        bar.show(progress.done, simulated_text(progress.simulated_s));
        if (settings.shown) settings.shown(progress);
      },
      [&](std::size_t g, ForkedRuns::Outcome& outcome) {
        if (!outcome.problem.empty()) throw ConfigError(outcome.problem);
        if (!outcome.done) return;
        output::OptionalRuns branches = output::unpack_runs(outcome.text);
        for (std::size_t i = 0; i < branches.size(); ++i) {
          if (!branches[i]) continue;
          std::optional<output::RunResult>& result = results[groups[g].indices[i]];
          result = std::move(branches[i]);
          if (settings.finished) settings.finished(groups[g].indices[i], *result);
        }
      });
  return results;
}

}  // namespace batchflow::sim
