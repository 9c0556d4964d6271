#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "configs/reader/output.h"
#include "configs/reader/yaml.h"
#include "core/config_error.h"
#include "policies/registry.h"
#include "sim/cluster_replay/replay_report.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "sim/commands.h"
#include "sim/output_flags.h"
#include "sim/planned_runs.h"
#include "sim/run_report.h"
#include "sim/sizes.h"
#include "sim/terminal.h"
#include "sim/usage.h"
#include "sim/variants.h"

namespace batchflow::sim {
namespace {

struct Options {
  std::string trace;
  std::string format = "auto";
  std::string cluster = "philly";
  std::string overlay = "mixed";
  std::string scheduler = "recorded";
  std::string from;
  std::string to;
  double scale_gpus = 1;
  ReplayGrain grain;
  std::vector<std::string> policies;
  std::vector<std::string> overrides;
  std::vector<std::string> overlay_overrides;
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  std::uint64_t at_once = 0;
  OutputFlags outputs;
};

JobTrace read_trace(const Options& options) {
  ProgressBar bar("reading " + options.trace);
  JobReadOptions reading;
  reading.format = options.format;
  reading.progress = [&bar](double done) {
    check_interrupted();
    bar.show(done);
  };
  return read_job_trace(options.trace, reading);
}

Scenario base_of(const Options& options, const Variant& variant, std::uint64_t seed) {
  ConfigNode tree;
  const auto set = [&](const std::string& assignment) {
    apply_override(tree, assignment);
    resolve_names(tree);
  };
  set("cluster=" + options.cluster);
  set("scheduler=" + options.scheduler);
  apply_variant(variant, tree);
  for (const std::string& text : options.overrides) set(text);
  apply_override(tree, fmt::format("seed={}", seed));
  Scenario base = read_cluster_and_engine(tree);
  check_policies(policy_list(), base.engine.policies, tree);
  base.name = options.trace;
  return base;
}

OverlayModel overlay_of(const Options& options) {
  ConfigNode tree = load_overlay(options.overlay);
  for (const std::string& text : options.overlay_overrides) apply_override(tree, text);
  return read_overlay(tree);
}

std::vector<PlannedRun> plan(const Options& options, const JobTrace& trace,
                             const OverlayModel& overlay, LeftOut& left_out) {
  ReplayWindow window;
  window.scale = options.scale_gpus;
  window.from = window_time("--from", options.from, trace);
  window.to = window_time("--to", options.to, trace);
  std::vector<PlannedRun> planned;
  for (const Variant& variant : parse_variants(policy_list(), options.policies)) {
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
      LeftOut out;
      planned.push_back(
          {variant.label, replay_scenario(base_of(options, variant, options.seed + i), trace,
                                          overlay, options.grain, window, out)});
      left_out = out;
    }
  }
  return planned;
}

int run_replay(const Options& options) {
  options.outputs.check(options.trace);
  const JobTrace trace = read_trace(options);
  const OverlayModel overlay = overlay_of(options);
  LeftOut left_out;
  const std::vector<PlannedRun> planned = plan(options, trace, overlay, left_out);
  say(left_out_text(trace, left_out, planned.front().scenario.jobs.size()));
  const FluidBound bound = fluid_bound(planned.front().scenario);
  RunSettings settings;
  settings.series = true;
  settings.at_once = options.at_once;
  std::vector<RunResult> runs = begun(run_all(planned, settings));
  if (options.outputs.wanted("json")) {
    options.outputs.write("json", results_json(runs, "replay", BATCHFLOW_VERSION,
                                               replay_json(runs, bound, left_out)));
  }
  if (options.outputs.wanted("jobs-csv")) options.outputs.write("jobs-csv", jobs_csv(runs));
  if (!runs.empty()) options.outputs.write_text(replay_table(runs, bound));
  return exit_code(runs, planned.size());
}

}  // namespace

void add_replay_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "replay", "Replay a scheduler's log: had these jobs shared one data service...");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("TRACE", options->trace,
                   "A log of jobs, plain, gzip or zstd; - is standard input")
      ->required();
  command->add_option("--format", options->format, "Of the trace, in place of what it looks like")
      ->type_name("FORMAT");
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
                      "recorded (jobs begin when they did), fifo, sjf or las (default: recorded)");
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
                   "So large a share of the cluster's nodes, store and links, and of the jobs")
      ->check(CLI::Range(1e-6, 1.));
  command
      ->add_option("--set", options->overrides,
                   "path.to.key=value: changes cluster.* or engine.* (repeat it)")
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "Of the overlay, and of all chance (default: 1)")
      ->check(CLI::NonNegativeNumber);
  add_whole_number(*command, "--seeds", options->seeds, 1, 1000,
                   "So many seeds from there on, with intervals over them (default: 1)");
  add_whole_number(*command, "--items", options->grain.items, 1, 4096,
                   "A data set is counted in so many parts, at most (default: 64)");
  add_whole_number(*command, "--steps", options->grain.steps, 1, 1'000'000,
                   "About so many steps for a job of an hour, and by the root of their time for\n  "
                   "                 others: more is finer and slower (default: 12)");
  add_whole_number(*command, "--workers-per-node", options->grain.workers_per_node, 1, 1024,
                   "Groups into which a node's cores are put to prepare blocks (default: 4)");
  add_whole_number(*command, "-j,--jobs", options->at_once, 1, 1024,
                   "Runs at once (default: as many as there are cores)");
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "jobs-csv", "a CSV row for each job");
  command->footer(
      "Examples:\n"
      "  batchflow-sim replay cluster_job_log.gz --policy preset=independent,default\n"
      "  batchflow-sim replay jobs.csv --overlay hp-search --from 10d --to 20d --scheduler sjf");
  command->callback([options, &action] { action = [options] { return run_replay(*options); }; });
}

}  // namespace batchflow::sim
