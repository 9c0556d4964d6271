// `sweep-part`: some runs of a study, for the program that spreads a sweep over machines
// (sim/study_runs.h). It writes lines of JSON: progress, and results as they come.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "core/base/config_value.h"
#include "programs/output/output.h"
#include "sim/commands.h"
#include "sim/result_log.h"
#include "sim/study_runs.h"

namespace batchflow::sim {
namespace {

struct PartOptions {
  std::string study;
  std::string fingerprint;
  std::vector<std::size_t> runs;
};

void write_line(const std::string& line) {
  if (std::fputs(line.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw output::OutputError("standard output: cannot be written", errno);
}

int run_part(const PartOptions& options) {
  const StudyPlan plan = plan_study(options.study);
  if (plan.fingerprint != options.fingerprint) {
    throw ConfigError(
        fmt::format("{}: the study or its scenario is not the same here as where the sweep was "
                    "begun; have the same files at the same path on all machines",
                    options.study));
  }
  for (const std::size_t run : options.runs)
    if (run >= plan.runs.size()) throw ConfigError(fmt::format("the study has no run {}", run));
  RunSettings settings;
  settings.at_once = 1;
  settings.finished = [](std::size_t run, const output::RunResult& result) {
    if (is_whole(result)) write_line(result_line(run, result));
  };
  std::chrono::steady_clock::time_point written{};
  settings.shown = [&](const RunProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now < written + std::chrono::seconds(1)) return;
    written = now;
    write_line(fmt::format("{{\"done\":{:.4f},\"simulated_s\":{:.3f}}}\n", progress.done,
                           progress.simulated_s));
  };
  simulate_runs(plan, options.runs, settings);
  return 0;
}

}  // namespace

void add_sweep_part_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("sweep-part")->group("");
  const auto options = std::make_shared<PartOptions>();
  command->add_option("--fingerprint", options->fingerprint)->required();
  command->add_option("STUDY", options->study)->required();
  command->add_option("RUN", options->runs)->required();
  command->callback([options, &action] { action = [options] { return run_part(*options); }; });
}

}  // namespace batchflow::sim
