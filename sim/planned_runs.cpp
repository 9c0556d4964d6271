#include "sim/planned_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "core/base/config_error.h"
#include "programs/output/packed_runs.h"
#include "programs/output/terminal.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

constexpr int kFailed = 1;
constexpr int kInterrupted = 130;

std::string simulate_one(const PlannedRun& planned, const RunSettings& settings,
                         const ForkedRuns::ReportProgress& report) {
  SimulateOptions how = settings.how;
  how.goes_on = report;
  const bool is_whole = !planned.complete;
  const input::Scenario completed =
      is_whole ? input::Scenario{} : planned.complete(planned.scenario);
  output::RunResult run = simulate(is_whole ? planned.scenario : completed, how);
  run.label = planned.label;
  if (!settings.series) run.series.clear();  // no report draws it
  return output::pack_run(run);
}

}  // namespace

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

std::vector<std::optional<output::RunResult>> run_all(const std::vector<PlannedRun>& planned,
                                                      const RunSettings& settings) {
  std::vector<ForkedRuns::Work> works;
  for (const PlannedRun& one : planned) {
    works.push_back([&](const ForkedRuns::ReportProgress& report) {
      return simulate_one(one, settings, report);
    });
  }
  output::ProgressBar bar(!settings.label.empty() ? settings.label
                          : planned.size() == 1
                              ? "simulating"
                              : fmt::format("simulating {} runs", planned.size()));
  const auto began = std::chrono::steady_clock::now();
  const auto beside = [&](const RunProgress& progress) {
    const double spent_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::string text =
        settings.clock ? settings.clock(progress) : simulated_text(progress.simulated_s);
    // An estimate from less would be too inexact.
    if (spent_s > 2 && progress.done > 0.01) {
      text += fmt::format(", {} left",
                          time_text(std::ceil(spent_s * (1 - progress.done) / progress.done)));
    }
    return text;
  };
  std::vector<std::optional<output::RunResult>> results(planned.size());
  ForkedRuns::run(
      works, static_cast<unsigned>(settings.processes()),
      [&](const RunProgress& progress) { bar.show(progress.done, beside(progress)); },
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
    return kInterrupted;
  }
  return std::any_of(runs.begin(), runs.end(), has_failed) ? kFailed : 0;
}

}  // namespace batchflow::sim
