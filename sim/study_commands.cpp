// The commands for several runs: `sweep` makes them, `compare` compares two files of results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "core/base/config_value.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/commands.h"
#include "sim/compare.h"
#include "sim/result_log.h"
#include "sim/study.h"
#include "sim/study_runs.h"
#include "sim/sweep_report.h"

namespace batchflow::sim {
namespace {

struct SweepOptions {
  std::string study;
  std::string out;
  std::string html;
  std::string engine = "local";
  std::uint64_t at_once = 0;
  bool resume = false;
  bool gen_config = false;
  output::OutputFlags outputs;
};

struct CompareOptions {
  std::string a;
  std::string b;
  output::OutputFlags outputs;
};

// Makes the runs that the log lacks, and adds each to the log as it comes.
void make_missing(const StudyPlan& plan, const SweepOptions& options, ResultLog& log) {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < plan.runs.size(); ++i)
    if (!log.results()[i]) missing.push_back(i);
  if (missing.empty()) return;
  RunSettings settings;
  settings.at_once = options.at_once;
  settings.finished = [&](std::size_t i, const output::RunResult& run) {
    if (is_whole(run)) log.add(i, run);
  };
  if (options.engine == "local") {
    simulate_runs(plan, missing, settings);
  } else {
    have_runs_made({options.engine, options.study}, plan, missing, settings);
  }
}

int answer(const SweepOptions& options, const SweepResults& results) {
  const output::OutputFlags& outputs = options.outputs;
  if (outputs.wanted("json")) outputs.write("json", sweep_json(results));
  if (outputs.wanted("csv")) outputs.write("csv", sweep_csv(results));
  if (!options.html.empty()) {
    output::write_file_atomically(options.html, sweep_html(results), output::check_interrupted);
  }
  outputs.write_text(sweep_table(results));
  std::vector<output::RunResult> runs = begun(results.runs);
  return exit_code(runs, runs.size());
}

int run_sweep(const SweepOptions& options) {
  if (options.gen_config) {
    output::write_file_atomically("-", study_template(), output::check_interrupted);
    return 0;
  }
  if (options.study.empty()) {
    throw ConfigError(
        "sweep: no study; write its name or path, or --gen-config for one to begin with");
  }
  if (options.engine != "local" && options.study == "-")
    throw ConfigError("--engine: each machine reads the study for itself; name a file");
  options.outputs.check();
  if (!options.html.empty()) output::require_writable(options.html);
  const StudyPlan plan = plan_study(options.study);
  for (const std::string& note : plan.notes) output::say(note);
  const std::string out =
      !options.out.empty()
          ? options.out
          : std::filesystem::path(options.study).stem().string() + ".results.jsonl";
  ResultLog log(out, {plan.name, plan.fingerprint, plan.runs.size()}, options.resume);
  make_missing(plan, options, log);
  const SweepResults results{plan, log.results()};
  if (results.count() == plan.runs.size()) {
    log.close();
    return answer(options, results);
  }
  const int code = answer(options, results);
  const bool interrupted = output::was_interrupted();
  output::say(fmt::format("batchflow-sim: {}; {} of {} runs are in {}, --resume makes the rest",
                          interrupted ? "interrupted" : "some runs did not end", results.count(),
                          plan.runs.size(), out));
  return interrupted ? 130 : code == 0 ? 1 : code;
}

int run_compare(const CompareOptions& options) {
  options.outputs.check(options.a);
  options.outputs.check(options.b);
  const auto a = output::parse_results(output::read_results_file(options.a), options.a);
  const auto b = output::parse_results(output::read_results_file(options.b), options.b);
  Comparison comparison = compare(a, b);
  comparison.name_a = options.a;
  comparison.name_b = options.b;
  if (comparison.matches.empty()) {
    throw ConfigError(fmt::format("{} and {} have no run in common; compare files of one study",
                                  options.a, options.b));
  }
  if (options.outputs.wanted("json")) options.outputs.write("json", comparison_json(comparison));
  options.outputs.write_text(comparison_table(comparison));
  return 0;
}

}  // namespace

void add_sweep_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("sweep", "Run a study: a scenario at every combination of what is varied");
  const auto options = std::make_shared<SweepOptions>();
  command->add_option("STUDY", options->study, "A file, or the name of one of configs/studies");
  output::add_whole_number(*command, "-j,--jobs", options->at_once, 1, 1024,
                           "Runs at the same time (default: all cores)");
  command
      ->add_option("--engine", options->engine,
                   "Where runs are made: local, or ray: on the nodes of a Ray cluster\n"
                   "(default: local)")
      ->check(CLI::IsMember({"local", "ray"}));
  command->add_option("-o,--out", options->out,
                      "Where results go as they come, a line of JSON each\n"
                      "(default: STUDY.results.jsonl)");
  command->add_flag("--resume", options->resume, "Go on with what an earlier sweep has left there");
  options->outputs.add(*command, "json", "JSON");
  options->outputs.add(*command, "csv", "a CSV row for each run");
  command->add_option("--html", options->html, "Write a report with plots to this file");
  command->add_flag("--gen-config", options->gen_config,
                    "Print a study with every setting and its default, and end");
  command->footer(
      "Examples:\n"
      "  batchflow-sim sweep store-and-cores --html sweep.html\n"
      "  batchflow-sim sweep my-study.yaml -j 4 --resume --csv=runs.csv");
  command->callback([options, &action] { action = [options] { return run_sweep(*options); }; });
}

void add_compare_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("compare", "Compare two files of results: what differs");
  const auto options = std::make_shared<CompareOptions>();
  command->add_option("A", options->a, "What `run` or `sweep` wrote with --json=FILE")->required();
  command->add_option("B", options->b, "The same, of the runs to compare with")->required();
  options->outputs.add(*command, "json", "JSON");
  command->footer("Example:\n  batchflow-sim compare before.json after.json");
  command->callback([options, &action] { action = [options] { return run_compare(*options); }; });
}

}  // namespace batchflow::sim
