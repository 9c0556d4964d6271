// The command `search`: the least cache, cores, nodes or other value for what jobs need.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/commands.h"
#include "sim/common_setup.h"
#include "sim/planned_runs.h"
#include "sim/scenario_options.h"
#include "sim/search_report.h"

namespace batchflow::sim {
namespace {

struct SearchOptions : ScenarioOptions {
  std::string least = "cache";
  std::vector<std::string> conditions;
  std::string between;
  std::vector<std::string> policies;
  std::uint64_t seeds = 1;
  std::uint64_t at_once = 0;
  std::string html;
  output::OutputFlags outputs;
};

// Makes the runs of one search.
class Searching {
 public:
  Searching(const SearchOptions& options, config::ConfigNode tree, const std::string& label)
      : options_(options), tree_(std::move(tree)) {
    results_.setting = searched_setting(options.least, options.between, tree_);
    for (const std::string& text : options.conditions)
      results_.conditions.push_back(parse_condition(text));
    results_.label = label;
    results_.seeds = options.seeds;
    // What cannot be at all is said before anything runs.
    const input::Scenario most = scenario(results_.setting.range.most);
    if (most.cluster.prices) results_.currency = most.cluster.prices->currency;
  }

  // False: it was interrupted.
  bool run() {
    RunSettings settings;
    settings.at_once = options_.at_once;
    LeastSearch search(results_.setting.range,
                       std::max<std::size_t>(1, settings.processes() / options_.seeds));
    for (std::size_t round = 1;; ++round) {
      const std::vector<std::uint64_t> values = search.next();
      if (values.empty()) break;
      settings.label =
          fmt::format("{}: {} to {}", results_.setting.name, results_.setting.text(values.front()),
                      results_.setting.text(values.back()));
      if (!try_all(values, settings, search)) return false;
    }
    std::sort(results_.tried.begin(), results_.tried.end(),
              [](const TriedValue& a, const TriedValue& b) { return a.value < b.value; });
    results_.answer = search.answer();
    results_.below = search.below();
    results_.out_of_line = search.out_of_line();
    return true;
  }

  SearchResults& results() { return results_; }
  std::vector<output::RunResult>& runs() { return runs_; }

 private:
  input::Scenario scenario(std::uint64_t value) const {
    config::ConfigNode tree = tree_;
    results_.setting.set(tree, value);
    std::vector<std::string> notes;
    return scenario_of(options_, tree, notes);
  }

  bool try_all(const std::vector<std::uint64_t>& values, const RunSettings& settings,
               LeastSearch& search) {
    std::vector<PlannedRun> planned;
    std::vector<TriedValue> tried;
    std::vector<std::size_t> first_run;
    for (const std::uint64_t value : values) {
      TriedValue& one = tried.emplace_back();
      one.value = value;
      first_run.push_back(planned.size());
      try {
        const input::Scenario of_value = scenario(value);
        one.price_per_hour = of_value.cluster.price_per_hour();
        for (std::uint64_t i = 0; i < options_.seeds; ++i) {
          planned.push_back(
              {fmt::format("{}{}{}={}", results_.label, results_.label.empty() ? "" : " ",
                           results_.setting.name, value),
               with_next_seed(of_value, i)});
        }
      } catch (const ConfigError& error) {
        one.remark = error.what();
      }
    }
    std::vector<std::optional<output::RunResult>> made = run_all(planned, settings);
    for (std::size_t i = 0; i < tried.size(); ++i) {
      const std::size_t count = tried[i].remark.empty() ? options_.seeds : 0;
      std::vector<output::RunResult> runs;
      for (std::size_t k = first_run[i]; k < first_run[i] + count; ++k) {
        if (!made[k] || made[k]->interrupted) return false;
        runs.push_back(std::move(*made[k]));
      }
      judge(tried[i], runs);
      search.add(tried[i].value, tried[i].meets);
      results_.tried.push_back(std::move(tried[i]));
      for (output::RunResult& run : runs) runs_.push_back(std::move(run));
    }
    return true;
  }

  void judge(TriedValue& one, const std::vector<output::RunResult>& runs) const {
    for (const output::RunResult& run : runs) {
      if (!has_failed(run)) continue;
      one.remark = run.failure;
      for (const output::JobResult& job : run.jobs) {
        if (one.remark.empty() && !job.refusal.empty())
          one.remark = fmt::format("job {} was refused: {}", job.name, job.refusal);
      }
      return;
    }
    if (runs.empty()) return;
    const auto value_of = [&](const Figure& figure) {
      std::vector<double> values;
      for (const output::RunResult& run : runs) {
        if (is_known(run, figure)) values.push_back(figure.value(run));
      }
      return values.empty() ? Estimate{} : estimate(values);
    };
    one.meets = true;
    for (const Condition& condition : results_.conditions) {
      one.figures.push_back(value_of(*condition.figure));
      if (one.figures.back().count == 0) {
        throw ConfigError(
            fmt::format("--for '{}': the cluster has no prices, so there is no cost; write prices "
                        "into its file, as {{node_hour: 2, cache_gb_hour: 0.01}}",
                        condition.text));
      }
      one.meets = one.meets && condition.is_met(one.figures.back().mean);
    }
    one.cost = value_of(figure_named("cost"));
    one.cost_per_million_samples = value_of(figure_named("cost_per_million_samples"));
  }

  const SearchOptions& options_;
  config::ConfigNode tree_;
  SearchResults results_;
  std::vector<output::RunResult> runs_;
};

int run_search(const SearchOptions& options) {
  if (!options.names_any()) {
    throw ConfigError("search: no scenario; write its name or path, or --cluster and --workload");
  }
  if (options.conditions.empty())
    throw ConfigError("search: nothing says what is enough; add --for 'stall_fraction<2%'");
  options.outputs.check(options.scenario);
  if (!options.html.empty()) output::require_writable(options.html);
  std::vector<std::string> notes;
  std::vector<Searching> all;
  for (const Variant& variant : parse_variants(policies::policy_list(), options.policies)) {
    notes.clear();  // they are the same for each
    all.emplace_back(options, scenario_tree(options, variant, notes), variant.label);
  }
  for (const std::string& note : notes) output::say(note);
  std::vector<SearchResults> searches;
  std::vector<output::RunResult> runs;
  std::string text;
  for (Searching& one : all) {
    if (!one.run()) {
      output::say("batchflow-sim: interrupted before the search was over");
      return output::kInterrupted;
    }
    text += (text.empty() ? "" : "\n") + search_table(one.results());
    searches.push_back(std::move(one.results()));
    for (output::RunResult& run : one.runs()) runs.push_back(std::move(run));
  }
  if (options.outputs.wanted("json")) {
    options.outputs.write("json",
                          output::results_json(runs, "search", BATCHFLOW_VERSION,
                                               with_common_setup(runs, searches_json(searches))));
  }
  if (!options.html.empty()) {
    output::write_file_atomically(options.html, searches_html(searches, runs),
                                  output::check_interrupted);
  }
  options.outputs.write_text(text + "\n" + common_lines(runs));
  const bool all_found =
      std::all_of(searches.begin(), searches.end(),
                  [](const SearchResults& one) { return one.answer.has_value(); });
  return all_found ? 0 : output::kFailed;
}

}  // namespace

void add_search_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "search", "Find the least cache, cores, nodes or other value with which jobs do not wait");
  const auto options = std::make_shared<SearchOptions>();
  add_scenario_options(*command, *options, "SCENARIO",
                       "A file, or the name of one of configs/scenarios");
  command->add_option("--least", options->least,
                      "What is searched: cache, cores or gpus of each node, nodes, or a path of\n"
                      "the scenario as cluster.store.bytes_per_s (default: cache)");
  command
      ->add_option("--for", options->conditions,
                   "What has to hold: a figure of results, a sign and a limit, as\n"
                   "'stall_fraction<2%' or 'jct_p95_s<=10min' (repeat it: all have to hold)")
      ->allow_extra_args(false);
  command->add_option("--between", options->between,
                      "A,B: the least and the greatest value, as 1gb,64gb (default: of caches up\n"
                      "to the memory of a node, of others up to four times what there is)");
  command
      ->add_option("-p,--policy", options->policies,
                   "As for `run`: each of those that are compared is searched for itself")
      ->allow_extra_args(false);
  output::add_whole_number(*command, "--seeds", options->seeds, 1, 1000,
                           "Runs of each value, of successive seeds; means count (default: 1)");
  output::add_whole_number(*command, "-j,--jobs", options->at_once, 1, 1024,
                           "Runs at the same time (default: all cores)");
  options->outputs.add(*command, "json", "JSON");
  command->add_option("--html", options->html, "Write a report with plots to this file");
  command->footer(
      "Examples:\n"
      "  batchflow-sim search four-jobs --least cache --for 'stall_fraction<2%'\n"
      "  batchflow-sim search four-jobs --least cores --for 'stall_fraction<2%' --between 2,32 "
      "--seeds 3");
  command->callback([options, &action] { action = [options] { return run_search(*options); }; });
}

}  // namespace batchflow::sim
