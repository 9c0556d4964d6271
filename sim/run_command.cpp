#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "configs/reader/output.h"
#include "configs/reader/yaml.h"
#include "core/config_error.h"
#include "policies/registry.h"
#include "sim/commands.h"
#include "sim/forked_runs.h"
#include "sim/output_flags.h"
#include "sim/report/run_html.h"
#include "sim/run_report.h"
#include "sim/simulate.h"
#include "sim/terminal.h"
#include "sim/variants.h"

namespace batchflow::sim {
namespace {

constexpr int kFailed = 1;
constexpr int kInterrupted = 130;

struct Options {
  std::string scenario;
  std::vector<std::string> policies;
  std::vector<std::string> overrides;
  std::optional<std::uint64_t> seed;
  std::string journal;
  std::string html;
  OutputFlags outputs;
  bool explain = false;
  bool gen_config = false;
};

struct Planned {
  Variant variant;
  Scenario scenario;
};

Scenario scenario_of(const Options& options, const Variant& variant) {
  ConfigNode tree = load_scenario(options.scenario);
  apply_variant(variant, tree);
  for (const std::string& text : options.overrides) apply_override(tree, text);
  if (options.seed) apply_override(tree, fmt::format("seed={}", *options.seed));
  Scenario scenario = read_scenario(tree);
  check_policies(policy_list(), scenario.engine.policies, tree);
  if (scenario.name.empty()) scenario.name = options.scenario;
  return scenario;
}

// All of them are read before the first runs.
std::vector<Planned> plan(const Options& options) {
  std::vector<Planned> planned;
  for (Variant& variant : parse_variants(policy_list(), options.policies)) {
    Scenario scenario = scenario_of(options, variant);
    planned.push_back({std::move(variant), std::move(scenario)});
  }
  if (planned.size() > 1 && (!options.journal.empty() || options.explain)) {
    throw ConfigError(
        fmt::format("{} tells of one run, and this is a comparison of {}; name one "
                    "policy of each kind",
                    options.explain ? "--explain" : "--journal", planned.size()));
  }
  return planned;
}

std::string simulate_one(const Options& options, const Planned& planned,
                         const ForkedRuns::Tell& tell) {
  SimulateOptions how;
  how.journal = options.journal;
  how.goes_on = tell;
  std::FILE* explained = options.outputs.wanted("json") ? stderr : stdout;
  if (options.explain) {
    how.explain = [explained](const std::string& line) {
      std::fputs((printable(line) + "\n").c_str(), explained);
    };
  }
  RunResult run = simulate(planned.scenario, how);
  run.label = planned.variant.label;
  if (options.html.empty()) run.series.clear();  // nobody looks at it
  return encode_run(run);
}

std::vector<RunResult> simulate_all(const Options& options, const std::vector<Planned>& planned) {
  std::vector<ForkedRuns::Work> works;
  for (const Planned& one : planned) {
    works.push_back([&](const ForkedRuns::Tell& tell) { return simulate_one(options, one, tell); });
  }
  ProgressBar bar(planned.size() == 1 ? "simulating"
                                      : fmt::format("simulating {} runs", planned.size()));
  const auto outcomes =
      ForkedRuns::run(works, std::max(1u, std::thread::hardware_concurrency()),
                      [&](double done, double simulated_s) {
                        bar.show(done, fmt::format("{} simulated", time_text(simulated_s)));
                      });
  std::vector<RunResult> runs;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const ForkedRuns::Outcome& outcome = outcomes[i];
    if (!outcome.problem.empty()) throw ConfigError(outcome.problem);
    RunResult run;
    if (outcome.done) {
      run = decode_run(outcome.text);
    } else if (outcome.failure.empty()) {
      continue;  // it was not begun
    } else {
      run.label = planned[i].variant.label;
      run.scenario = planned[i].scenario.name;
      run.failure = outcome.failure;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

int exit_code(const std::vector<RunResult>& runs, std::size_t asked) {
  const auto any = [&](auto what) { return std::any_of(runs.begin(), runs.end(), what); };
  if (runs.size() < asked || any([](const RunResult& run) { return run.interrupted; })) {
    say("batchflow-sim: interrupted; what is written are the results so far");
    return kInterrupted;
  }
  const bool failed = any([](const RunResult& run) {
    return !run.failure.empty() ||
           std::any_of(run.jobs.begin(), run.jobs.end(),
                       [](const JobResult& job) { return !job.refusal.empty(); });
  });
  return failed ? kFailed : 0;
}

int run_run(const Options& options) {
  if (options.gen_config) {
    write_file_atomically("-", scenario_template(), check_interrupted);
    return 0;
  }
  if (options.scenario.empty()) {
    throw ConfigError(
        "run: no scenario; write its name or path, or --gen-config for one to begin "
        "with");
  }
  options.outputs.check();
  if (!options.html.empty()) require_writable(options.html);
  const std::vector<Planned> planned = plan(options);
  const std::vector<RunResult> runs = simulate_all(options, planned);
  if (options.outputs.wanted("json")) {
    options.outputs.write("json", results_json(runs, "run", BATCHFLOW_VERSION));
  }
  if (options.outputs.wanted("jobs-csv")) options.outputs.write("jobs-csv", jobs_csv(runs));
  if (!options.html.empty() && !runs.empty()) {
    write_file_atomically(options.html, run_html(runs), check_interrupted);
  }
  if (!runs.empty()) options.outputs.write_text(run_table(runs));
  return exit_code(runs, planned.size());
}

int run_check(const Options& options) {
  const Scenario scenario = scenario_of(options, {});
  std::uint64_t samples = 0;
  for (const DatasetModel& dataset : scenario.datasets) samples += dataset.samples;
  write_file_atomically(
      "-",
      fmt::format("{}: {} nodes with {} GPUs, {} data sets of {} samples, {} jobs: nothing wrong\n",
                  printable(scenario.name), scenario.cluster.nodes.size(), scenario.cluster.gpus(),
                  scenario.datasets.size(), samples, scenario.jobs.size()),
      check_interrupted);
  return 0;
}

void add_scenario_options(CLI::App& command, Options& options) {
  command.add_option("SCENARIO", options.scenario,
                     "A file, or the name of one of configs/scenarios");
  command
      .add_option("--set", options.overrides,
                  "path.to.key=value: changes the scenario, also its cluster (repeat it)")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "In place of the scenario's");
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("run", "Simulate a scenario: a cluster, its jobs, and what serves them");
  const auto options = std::make_shared<Options>();
  add_scenario_options(*command, *options);
  command
      ->add_option("-p,--policy", options->policies,
                   "kind=name[:parameter=value...] or preset=name. Names of one kind, by comma or\n"
                   "repeated, are compared; kinds are crossed")
      ->allow_extra_args(false);
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "jobs-csv", "a CSV row for each job");
  command->add_option("--html", options->html, "Write a report with plots to this file");
  command->add_option("--journal", options->journal,
                      "Write the trace journal of the run to this file");
  command->add_flag("--explain", options->explain,
                    "Print each event and order with its simulated time");
  command->add_flag("--gen-config", options->gen_config,
                    "Print a scenario with every setting and its default, and end");
  command->footer(
      "Examples:\n"
      "  batchflow-sim run four-jobs --policy preset=independent,default\n"
      "  batchflow-sim run my.yaml --set cluster.store.bytes_per_s=1gb --json=out.json");
  command->callback([options, &action] { action = [options] { return run_run(*options); }; });
}

void add_check_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "Check a scenario without running it");
  const auto options = std::make_shared<Options>();
  add_scenario_options(*command, *options);
  command->get_option("SCENARIO")->required();
  command->callback([options, &action] { action = [options] { return run_check(*options); }; });
}

}  // namespace batchflow::sim
