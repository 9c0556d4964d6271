#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/bottlenecks.h"
#include "sim/commands.h"
#include "sim/common_setup.h"
#include "sim/planned_runs.h"
#include "sim/plugin_check/command.h"
#include "sim/report/run_html.h"
#include "sim/report/sections.h"
#include "sim/run_report.h"
#include "sim/scenario_options.h"
#include "sim/variants.h"

namespace batchflow::sim {
namespace {

struct RunOptions : ScenarioOptions {
  std::vector<std::string> policies;
  std::string journal;
  std::string batches;
  std::string html;
  std::string timeline;
  std::uint64_t timeline_events = 0;  // 0: not given
  output::OutputFlags outputs;
  bool explain = false;
  bool bottleneck = false;
  bool gen_config = false;
};

// Batches name samples, so items must be samples, and batches must not stand for several.
void check_names_samples(const input::Scenario& scenario) {
  const input::GrainModel& grain = scenario.grain;
  if (grain.samples_per_item == 1 && grain.epochs_per_block == 1) return;
  throw ConfigError(
      "--batches names single samples, and the scenario has a coarser grain; write "
      "--set grain.samples_per_item=1 --set grain.epochs_per_block=1");
}

// All scenarios are read before the first run begins.
std::vector<PlannedRun> plan(const RunOptions& options) {
  std::vector<PlannedRun> planned;
  std::vector<std::string> notes;
  for (Variant& variant : parse_variants(policies::policy_list(), options.policies)) {
    output::check_interrupted();
    notes.clear();  // they are the same for each
    input::Scenario scenario = scenario_of(options, scenario_tree(options, variant, notes), notes);
    planned.push_back({std::move(variant.label), std::move(scenario)});
  }
  for (const std::string& note : notes) output::say(note);
  const char* of_one_run = options.explain             ? "--explain"
                           : !options.journal.empty()  ? "--journal"
                           : !options.batches.empty()  ? "--batches"
                           : !options.timeline.empty() ? "--timeline"
                                                       : nullptr;
  if (planned.size() > 1 && of_one_run != nullptr) {
    throw ConfigError(
        fmt::format("{} shows one run, and this is a comparison of {}; name one "
                    "policy of each kind",
                    of_one_run, planned.size()));
  }
  if (!options.batches.empty()) check_names_samples(planned.front().scenario);
  return planned;
}

RunSettings settings_of(const RunOptions& options) {
  RunSettings settings;
  settings.series = !options.html.empty();
  settings.how.journal = options.journal;
  settings.how.batches = options.batches;
  settings.how.timeline = options.timeline;
  if (options.timeline_events > 0) settings.how.timeline_events = options.timeline_events;
  std::FILE* explained = options.outputs.wanted("json") ? stderr : stdout;
  if (options.explain) {
    settings.how.explain = [explained](const std::string& line) {
      std::fputs((output::printable(line) + "\n").c_str(), explained);
    };
  }
  return settings;
}

// Each run again, with twice as much of each resource in turn; an interrupted run is left out.
void find_bottlenecks(const std::vector<PlannedRun>& planned,
                      std::vector<output::RunResult>& runs) {
  if (runs.size() < planned.size()) return;
  std::vector<PlannedRun> more;
  std::vector<std::size_t> run_of;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (runs[i].interrupted || has_failed(runs[i])) continue;
    for (auto& [resource, scenario] : with_double_resources(planned[i].scenario)) {
      more.push_back({resource, std::move(scenario)});
      run_of.push_back(i);
    }
  }
  const auto results = run_all(more, {});
  for (std::size_t k = 0; k < more.size(); ++k) {
    if (!results[k] || results[k]->interrupted || has_failed(*results[k])) continue;
    output::RunResult& run = runs[run_of[k]];
    run.bottlenecks.push_back(gain_of(more[k].label, run, *results[k]));
  }
}

// Checks that every result can be written, and each to a file of its own.
void check_outputs(const RunOptions& options) {
  using Named = std::pair<const char*, std::string>;
  options.outputs.check(options.scenario);
  if (options.timeline_events > 0 && options.timeline.empty()) {
    throw ConfigError("--timeline-events needs a timeline; add --timeline FILE");
  }
  for (const std::string& path :
       {options.html, options.timeline, options.journal, options.batches}) {
    if (!path.empty()) output::require_writable(path);
  }
  std::vector<Named> taken = {{"SCENARIO", options.scenario},
                              {"--json", options.outputs.path("json")},
                              {"--jobs-csv", options.outputs.path("jobs-csv")}};
  for (const Named& named :
       {Named{"--html", options.html}, Named{"--timeline", options.timeline},
        Named{"--journal", options.journal}, Named{"--batches", options.batches}}) {
    if (named.second.empty()) continue;
    for (const auto& [flag, path] : taken) {
      if (path.empty() || !output::same_file(named.second, path)) continue;
      throw ConfigError(
          fmt::format("{} and {} cannot both be {}; name another file", flag, named.first, path));
    }
    taken.push_back(named);
  }
}

int run_run(const RunOptions& options) {
  if (options.gen_config) {
    output::write_file_atomically("-", input::scenario_template(), output::check_interrupted);
    return 0;
  }
  if (!options.names_any()) {
    throw ConfigError(
        "run: no scenario; write its name or path, --cluster and --workload, or --gen-config for "
        "one to begin with");
  }
  check_outputs(options);
  const std::vector<PlannedRun> planned = plan(options);
  std::vector<output::RunResult> runs = begun(run_all(planned, settings_of(options)));
  if (runs.empty()) return exit_code(runs, planned.size());
  if (options.bottleneck) find_bottlenecks(planned, runs);
  if (options.outputs.wanted("json")) {
    options.outputs.write("json", output::results_json(runs, "run", BATCHFLOW_VERSION,
                                                       with_common_setup(runs, "{}")));
  }
  if (options.outputs.wanted("jobs-csv")) options.outputs.write("jobs-csv", output::jobs_csv(runs));
  if (!options.html.empty()) {
    output::write_file_atomically(
        options.html,
        run_html(runs, job_times_html(runs) + (options.bottleneck ? bottlenecks_html(runs) : "")),
        output::check_interrupted);
  }
  options.outputs.write_text(run_table(runs) + bottleneck_table(runs));
  return exit_code(runs, planned.size());
}

int run_check(const RunOptions& options) {
  if (!options.names_any()) {
    throw ConfigError("check: no scenario; write its name or path, or --cluster and --workload");
  }
  std::vector<std::string> notes;
  const input::Scenario scenario = scenario_of(options, scenario_tree(options, {}, notes), notes);
  for (const std::string& note : notes) output::say(note);
  std::uint64_t samples = 0;
  for (const input::DatasetModel& dataset : scenario.datasets) samples += dataset.samples;
  output::write_file_atomically(
      "-",
      fmt::format("{}: {} nodes with {} GPUs, {} datasets of {} samples, {} jobs: nothing wrong\n",
                  output::printable(scenario.name), scenario.cluster.nodes.size(),
                  scenario.cluster.gpus(), scenario.datasets.size(), samples, scenario.jobs.size()),
      output::check_interrupted);
  return 0;
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("run", "Simulate a scenario: a cluster, its jobs, and the service");
  const auto options = std::make_shared<RunOptions>();
  add_scenario_options(*command, *options, "SCENARIO",
                       "A file, or the name of one of configs/scenarios");
  command
      ->add_option("-p,--policy", options->policies,
                   "kind=name[:parameter=value...] or preset=name. Names of one kind, by comma or\n"
                   "repeated, are compared; kinds are crossed")
      ->allow_extra_args(false);
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "jobs-csv", "a CSV row for each job");
  command->add_option("--html", options->html, "Write a report with plots to this file");
  command->add_option("--journal", options->journal, "Write the journal of the run to this file");
  command->add_option("--batches", options->batches,
                      "Write the samples of each batch that jobs train on to this file, a line of\n"
                      "JSON each");
  command->add_option("--timeline", options->timeline,
                      "Write what every machine did, and when, to this file: a Chrome trace, for\n"
                      "ui.perfetto.dev");
  output::add_whole_number(
      *command, "--timeline-events", options->timeline_events, 1, UINT32_MAX,
      "Events at which the timeline ends, and the run goes on (default: 1000000)");
  command->add_flag(
      "--explain", options->explain,
      "Print each event (<), decision of a policy (?) and command (>), with its time");
  command->add_flag("--bottleneck", options->bottleneck,
                    "Run each again with twice the rate of storage, drives, network, memory or\n"
                    "PCIe, the cores, workers or cache, and say what every job would gain");
  command->add_flag("--gen-config", options->gen_config,
                    "Print a scenario with every setting and its default, and end");
  command->footer(
      "Examples:\n"
      "  batchflow-sim run four-jobs --policy preset=independent,default\n"
      "  batchflow-sim run my.yaml --set cluster.store.bytes_per_s=1gb --json=out.json");
  command->callback([options, &action] { action = [options] { return run_run(*options); }; });
}

void add_check_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "check", "Check a scenario without running it, or a plugin: whether it may be shipped");
  const auto options = std::make_shared<RunOptions>();
  const auto of_plugin = std::make_shared<PluginCheckOptions>();
  add_scenario_options(*command, *options, "SCENARIO|PLUGIN.so",
                       "A file, or the name of one of configs/scenarios; or a policy plugin");
  command->add_option("--key", of_plugin->key,
                      "Of a plugin: a private key (ed25519, PEM) that signs its certificate,\n"
                      "PLUGIN.so.certificate, if it passes");
  command
      ->add_option("--most-worse", of_plugin->most_worse,
                   "Of a plugin: percentage points by which jobs may wait more than with the\n"
                   "policies that services have by default (default: 1)")
      ->check(output::number_between(0, 100));
  of_plugin->outputs.add(*command, "json", "the verdict on a plugin as JSON");
  command->footer(
      "Examples:\n"
      "  batchflow-sim check four-jobs\n"
      "  batchflow-sim check mine.so --key operator.pem");
  command->callback([options, of_plugin, &action] {
    action = [options, of_plugin]() -> int {
      const bool is_plugin = options->scenario.ends_with(".so");
      if (!is_plugin && (!of_plugin->key.empty() || of_plugin->outputs.wanted("json")))
        throw ConfigError("--key and --json are of plugins; name a file that ends with .so");
      if (!is_plugin) return run_check(*options);
      of_plugin->plugin = options->scenario;
      return check_plugin(*of_plugin);
    };
  });
}

}  // namespace batchflow::sim
