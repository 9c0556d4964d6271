#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "core/base/config_value.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/cluster_replay/plan.h"
#include "sim/cluster_replay/replay_html.h"
#include "sim/cluster_replay/sensitivity.h"
#include "sim/commands.h"
#include "sim/job_columns.h"
#include "sim/job_log.h"
#include "sim/numbers.h"
#include "sim/report/run_html.h"

namespace batchflow::sim {
namespace {

struct ReplayCommandOptions : ReplayOptions {
  bool sensitivity = false;
  std::string html;
  std::uint64_t at_once = 0;
  output::OutputFlags outputs;
};

void check_outputs(const ReplayCommandOptions& options) {
  options.outputs.check(options.log.trace);
  if (options.html.empty()) return;
  output::require_writable(options.html);
  if (output::same_file(options.html,
                        options.log.trace == "-" ? "/dev/stdin" : options.log.trace)) {
    throw ConfigError(
        fmt::format("--html {} would overwrite what is read; name another file", options.html));
  }
  for (const char* other : {"json", "jobs-csv"}) {
    if (options.outputs.wanted(other) &&
        output::same_file(options.outputs.path(other), options.html)) {
      throw ConfigError(fmt::format(
          "--{} and --html cannot both go to {}; name another file for one", other, options.html));
    }
  }
}

// The same runs with each assumption changed; only their figures are kept.
Sensitivity study_of(const ReplayPlan& plan, const input::OverlayModel& overlay,
                     RunSettings settings, std::span<const output::RunResult> runs) {
  Sensitivity study{assumptions(overlay), by_label(runs), {}};
  for (const Assumption& assumption : study.assumptions) {
    settings.label = "assuming other " + assumption.name;
    for (const Assumption::Changed& change : assumption.changed) {
      if (output::was_interrupted()) return study;
      study.changed.push_back(by_label(begun(run_all(plan.runs(change.overlay), settings))));
    }
  }
  return study;
}

int run_replay(const ReplayCommandOptions& options) {
  check_outputs(options);
  check(options);
  const input::OverlayModel overlay = overlay_of(options);
  const traces::JobTrace trace = read_job_log(options.log);
  const ReplayOptions settled = with_scheduler(options, trace);
  const ReplayPlan plan(settled, trace);
  const Replayed replayed = plan.replayed(overlay);
  if (const std::string scheduler = scheduler_text(replayed); !scheduler.empty())
    output::say(scheduler);
  output::say(left_out_text(trace, replayed.left_out, replayed.jobs));
  if (!replayed.faults.empty()) output::say(replayed.faults);
  RunSettings settings;
  settings.series = true;
  settings.at_once = options.at_once;
  const std::vector<PlannedRun> planned = plan.runs(overlay);
  settings.clock = [&](const RunProgress& progress) {
    return fmt::format("{}, {} jobs", simulated_date(replayed, progress.simulated_s),
                       count_text(progress.jobs));
  };
  const std::vector<output::RunResult> runs = begun(run_all(planned, settings));
  if (runs.empty()) return exit_code(runs, planned.size());
  std::optional<Sensitivity> study;
  if (options.sensitivity) study = study_of(plan, overlay, settings, runs);
  if (options.outputs.wanted("json")) {
    options.outputs.write(
        "json",
        output::results_json(runs, "replay", BATCHFLOW_VERSION,
                             replay_json(runs, replayed, study ? sensitivity_json(*study) : "{}")));
  }
  if (options.outputs.wanted("jobs-csv")) options.outputs.write("jobs-csv", output::jobs_csv(runs));
  if (!options.html.empty()) {
    output::write_file_atomically(
        options.html,
        run_html(runs, replay_html(runs, replayed, study ? sensitivity_html(*study) : "")),
        output::check_interrupted);
  }
  options.outputs.write_text(replay_table(runs, replayed) +
                             (study ? "\n" + sensitivity_table(*study) : ""));
  const bool is_cut = output::was_interrupted() && study;
  return exit_code(runs, planned.size() + (is_cut ? 1 : 0));
}

}  // namespace

void add_replay_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "replay", "Replay a scheduler's log: had these jobs shared one data service...");
  const auto options = std::make_shared<ReplayCommandOptions>();
  options->log.trace = "gen:cluster";
  command->add_option("TRACE", options->log.trace,
                      "A log of jobs, plain, gzip or zstd; - is standard input; or a made one,\n"
                      "gen:cluster[,jobs=N][,days=D][,gpus=G][,seed=S] (default: gen:cluster)");
  command
      ->add_option("--format", options->log.format,
                   "The format of the trace, in place of a guess by its content")
      ->type_name("FORMAT");
  add_columns_option(*command, options->log.columns);
  add_corrupt_limit(*command, options->log.corrupt_limit);
  command->add_option("--cluster", options->cluster,
                      "A file, or the name of one of configs/clusters (default: philly)");
  command->add_option("--overlay", options->overlay,
                      "What jobs are taken to train on: a file, or the name of one of\n"
                      "configs/overlays (default: mixed)");
  command
      ->add_option("--assume", options->overlay_overrides,
                   "path.to.key=value: changes the overlay (repeat it)")
      ->allow_extra_args(false);
  command->add_option("--scheduler", options->scheduler,
                      "recorded (jobs begin when they did), fifo, sjf or las (default: recorded,\n"
                      "or fifo for a log without starts)");
  command
      ->add_option("-p,--policy", options->policies,
                   "kind=name[:parameter=value...] or preset=name. Names of one kind, by comma or\n"
                   "repeated, are compared; kinds are crossed")
      ->allow_extra_args(false);
  command->add_option("--from", options->from,
                      "Jobs submitted from here on: 2017-10-03, 2017-10-03T12:00, or 10d after\n"
                      "the first");
  command->add_option("--to", options->to, "Jobs submitted before this");
  command
      ->add_option("--scale-gpus", options->scale_gpus,
                   "Replay this part of the cluster's nodes, store and links, and of the jobs")
      ->check(output::number_between(1e-6, 1));
  command
      ->add_option("--set", options->overrides,
                   "path.to.key=value: changes cluster.* or engine.* (repeat it)")
      ->allow_extra_args(false);
  command->add_option(
      "--faults", options->faults,
      "A CSV of nodes that were lost, with columns node, down and up: dates of the\n"
      "log's calendar, or times after the first job");
  command->add_option("--skip", options->skip,
                      "Simulated time to leave out of the figures over all jobs, as 1d");
  output::add_whole_number(*command, "--seed", options->seed, 0, std::uint64_t{1} << 53,
                           "The seed of the overlay, and of all random draws (default: 1)");
  output::add_whole_number(*command, "--seeds", options->seeds, 1, 1000,
                           "How many seeds, from --seed on, with intervals over them (default: 1)");
  output::add_whole_number(*command, "--items", options->grain.items, 1, 4096,
                           "In how many parts a dataset is counted, at most (default: 256)");
  output::add_whole_number(
      *command, "--steps", options->grain.steps, 1, 1'000'000,
      "About how many steps a job of an hour takes; others by the root of their\n"
      "time: more is finer and slower (default: 4)");
  command->add_flag(
      "--fine", options->grain.fine,
      "Simulate batch by batch, for windows and small clusters: what the coarse grain leaves out");
  output::add_whole_number(*command, "-j,--jobs", options->at_once, 1, 1024,
                           "Runs at once (default: as many as there are cores)");
  command->add_flag("--sensitivity", options->sensitivity,
                    "Run it again with each assumption of the overlay lower and higher: 17 times\n"
                    "the runs");
  command->add_option("--html", options->html, "Write a report with plots to this file");
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "jobs-csv", "a CSV row for each job");
  command->footer(
      "Examples:\n"
      "  batchflow-sim replay cluster_job_log.gz --policy preset=independent,default\n"
      "  batchflow-sim replay jobs.csv --overlay hp-search --from 10d --to 20d --scheduler sjf\n"
      "  batchflow-sim replay gen:cluster,jobs=2000,days=7,gpus=256 --html report.html");
  command->callback([options, &action] { action = [options] { return run_replay(*options); }; });
}

}  // namespace batchflow::sim
