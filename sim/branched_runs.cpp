#include "sim/branched_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config_error.h"
#include "sim/terminal.h"

namespace batchflow::sim {

namespace {

// Of a work that has several: each is a line, which JSON never breaks.
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// In the process of a group: the beginning, and then a process for each branch.
std::string run_group(const Branching& group, std::size_t at_once, const ForkedRuns::Tell& tell) {
  const ForkedRuns::Tell* told = &tell;  // in a branch's process, its own
  SimulateOptions how;
  how.goes_on = [&told](const HowFar& so) { return (*told)(so); };
  const auto simulation = start_simulation(group.beginning, how);
  if (!simulation->run_until(group.at)) {
    if (!tell({})) return "";  // interrupted
    throw ConfigError("key 'warm_start.at': all jobs are done before; write an earlier time");
  }
  std::vector<ForkedRuns::Work> works;
  for (const PlannedRun& branch : group.branches) {
    works.push_back([&](const ForkedRuns::Tell& own) {
      told = &own;
      simulation->change_to(branch.scenario);
      RunResult run = simulation->run();
      run.label = branch.label;
      run.series.clear();
      return encode_run(run);
    });
  }
  bool goes_on = true;
  const auto outcomes = ForkedRuns::run(
      works, static_cast<unsigned>(at_once), [&](const HowFar& so) { goes_on = tell(so); }, {},
      [&] { return goes_on; });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto result = result_of(group.branches[i], outcomes[i]);
    lines.push_back(result ? encode_run(*result) : "");
  }
  return joined(lines);
}

}  // namespace

std::vector<std::optional<RunResult>> run_branches(const std::vector<Branching>& groups,
                                                   std::size_t count, const RunSettings& settings) {
  const std::size_t at_once = settings.processes();
  const std::size_t groups_at_once = std::min(at_once, groups.size());
  std::vector<ForkedRuns::Work> works;
  for (const Branching& group : groups) {
    works.push_back([&](const ForkedRuns::Tell& tell) {
      return run_group(group, std::max<std::size_t>(1, at_once / groups_at_once), tell);
    });
  }
  std::vector<std::optional<RunResult>> results(count);
  ProgressBar bar(fmt::format("simulating {} branches", count));
  ForkedRuns::run(
      works, static_cast<unsigned>(groups_at_once),
      [&](const HowFar& so) { bar.show(so.done, simulated_text(so.simulated_s)); },
      [&](std::size_t g, const ForkedRuns::Outcome& outcome) {
        if (!outcome.problem.empty()) throw ConfigError(outcome.problem);
        std::size_t from = 0;
        for (const std::size_t index : groups[g].indices) {
          const std::size_t end = outcome.text.find('\n', from);
          if (end == std::string::npos) break;
          if (end > from) {
            results[index] = decode_run(outcome.text.substr(from, end - from));
            if (settings.finished) settings.finished(index, *results[index]);
          }
          from = end + 1;
        }
      });
  return results;
}

}  // namespace batchflow::sim
