#include "sim/branched_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_error.h"
#include "programs/output/packed_runs.h"
#include "programs/output/terminal.h"

namespace batchflow::sim {

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
