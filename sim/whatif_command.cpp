// batchflow-sim whatif: a scenario beside what could be otherwise. batchflow-sim journal whatif:
// the same of what really ran.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/config_value.h"
#include "programs/input/find_config.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/commands.h"
#include "sim/journal_reading.h"
#include "sim/numbers.h"
#include "sim/simulate.h"
#include "sim/whatif.h"

namespace batchflow::sim {
namespace {

using Json = nlohmann::ordered_json;

struct WhatIfOptions {
  std::string file;  // a scenario, or a journal
  std::string cluster;
  std::string scenario;  // where the derived one goes
  std::string from = "0s";
  WhatIfQuestion question;
  output::OutputFlags outputs;
};

void write_json(const WhatIfOptions& options, const Json& all) {
  options.outputs.write("json", all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

int exit_code_of(const WhatIfAnswer& answer) {
  if (answer.interrupted) return output::kInterrupted;
  return answer.as_is.failure.empty() ? 0 : output::kFailed;
}

int whatif_scenario(WhatIfOptions& options) {
  options.outputs.check(options.file);
  const std::optional<Duration> from = parse_duration(options.from);
  if (!from || *from < Duration(0))
    throw ConfigError(fmt::format("--from {}: not a time; write 60s", options.from));
  options.question.from_s = input::seconds_of(*from);
  const config::ConfigNode tree = input::load_scenario(options.file);
  const WhatIfAnswer answer = ask_whatif(tree, options.question);
  if (options.outputs.wanted("json")) {
    Json all = {{"command", "whatif"}, {"version", BATCHFLOW_VERSION}, {"scenario", options.file}};
    add_whatif(all, answer, {});
    write_json(options, all);
  }
  options.outputs.write_text(whatif_table(answer, {}));
  return exit_code_of(answer);
}

// ------------------------------------------------------------------------------- of a journal ----

output::RunResult result_of(const input::RecordedFigures& figures) {
  output::RunResult run;
  output::Aggregate& sum = run.aggregate;
  run.makespan_s = figures.span_s;
  sum.samples = figures.samples;
  sum.samples_requested = sum.preparations = figures.samples_requested;
  sum.samples_read = figures.samples_read;
  sum.storage_bytes = figures.storage_bytes;
  sum.hit_ratio = output::hit_ratio(sum.samples_read, sum.samples_requested);
  if (figures.span_s > 0) sum.samples_per_s = static_cast<double>(figures.samples) / figures.span_s;
  if (figures.rank_s > 0) sum.stall_fraction = figures.stall_s / figures.rank_s;
  return run;
}

std::string lines(const char* head, const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all)
    text += fmt::format("{}  {}\n", text.empty() ? fmt::format("{}\n", head) : "",
                        output::printable(one));
  return text;
}

int whatif_journal(const WhatIfOptions& options) {
  options.outputs.check(options.file);
  if (!options.scenario.empty() && options.scenario != "-") {
    output::require_writable(options.scenario);
    if (output::same_file(options.scenario, options.file))
      throw ConfigError("--scenario would overwrite the journal; name another file");
  }
  std::optional<config::ConfigNode> cluster;
  if (!options.cluster.empty())
    cluster = input::read_yaml_file(input::find_config(options.cluster, "clusters"));
  const RecordedJournal read = read_recorded_journal(options.file);
  const input::ObservedWorkload& workload = read.run.workload;
  const input::DerivedScenario derived =
      input::derive_scenario(workload, cluster ? &*cluster : nullptr);
  if (!options.scenario.empty())
    output::write_file_atomically(options.scenario, derived.text, output::check_interrupted);
  constexpr input::YamlLimits kOwn{std::size_t{1} << 30, 64, 100'000'000};
  const config::ConfigNode tree =
      input::parse_yaml(derived.text, options.file + " as a scenario", kOwn);
  const WhatIfAnswer answer = ask_whatif(tree, options.question);
  const RecordedResult recorded = result_of(read.run.figures);
  if (options.outputs.wanted("json")) {
    Json all = {{"command", "journal whatif"}, {"version", BATCHFLOW_VERSION},
                {"file", options.file},        {"recorded_by", read.run.recorded_by},
                {"steps", read.run.steps},     {"end", read.end_name},
                {"known", derived.known},      {"assumed", derived.assumed},
                {"left_out", workload.notes}};
    add_whatif(all, answer, recorded);
    write_json(options, all);
  }
  std::string text = fmt::format(
      "{}: {} steps of {}, {} jobs, {} samples in {}\n", output::printable(options.file),
      count_text(read.run.steps), output::printable(read.run.recorded_by), workload.jobs.size(),
      count_text(read.run.figures.samples), time_text(read.run.figures.span_s));
  text += read.end + lines("known", derived.known) +
          lines("assumed or estimated", derived.assumed) + lines("left out", workload.notes) +
          "\n" + whatif_table(answer, recorded);
  for (const std::string& far : far_from_recorded(answer, recorded))
    text += fmt::format("far from what was recorded: {}\n", far);
  options.outputs.write_text(text);
  return exit_code_of(answer);
}

void add_question(CLI::App& command, WhatIfOptions& options) {
  command
      .add_option("-p,--policy", options.question.policies,
                  "kind=name[:parameter=value...] or preset=name. Names of one kind, by comma or\n"
                  "repeated, are candidates; kinds are crossed")
      ->allow_extra_args(false);
  command
      .add_option("--set", options.question.overrides,
                  "path.to.key=value of the scenario, in all candidates (repeat it), as\n"
                  "cluster.nodes.0.cache=64gb")
      ->allow_extra_args(false);
  output::add_whole_number(command, "--seeds", options.question.seeds, 1, 1000,
                           "Runs of each, from which intervals follow (default: 5)");
  options.outputs.add(command, "json", "JSON");
}

}  // namespace

void add_whatif_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "whatif", "Simulate a scenario as it is and otherwise, and say what would be gained");
  const auto options = std::make_shared<WhatIfOptions>();
  command->add_option("SCENARIO", options->file, "A file, or the name of one of configs/scenarios")
      ->required();
  add_question(*command, *options);
  command->add_option("--from", options->from,
                      "Count from this simulated time on, when caches are warm (default: 0s)");
  command->footer(
      "Example:\n"
      "  batchflow-sim whatif four-jobs --policy preset=independent,coordl --seeds 3");
  command->callback(
      [options, &action] { action = [options] { return whatif_scenario(*options); }; });
}

void add_journal_whatif(CLI::App& journal, Action& action) {
  CLI::App* command = journal.add_subcommand(
      "whatif", "Take the workload out of a journal, and simulate it as it was and otherwise");
  const auto options = std::make_shared<WhatIfOptions>();
  command
      ->add_option("FILE", options->file,
                   "What `batchflowd --journal` or `batchflow-sim run --journal FILE` has written")
      ->required();
  add_question(*command, *options);
  command->add_option("--cluster", options->cluster,
                      "The machine that recorded it, as `batchflowctl calibrate --cluster=FILE`\n"
                      "writes it; default: estimated from the journal's times");
  command->add_option("--scenario", options->scenario,
                      "Write the workload as a scenario to this file, for `batchflow-sim run`");
  command->footer(
      "Exit codes: 0 done, 1 the workload cannot be simulated as it was, 2 a file that cannot be "
      "used.\n"
      "Example:\n"
      "  batchflow-sim journal whatif /var/lib/batchflow/journal --policy preset=default,coordl "
      "\\\n"
      "    --cluster here.yaml");
  command->callback(
      [options, &action] { action = [options] { return whatif_journal(*options); }; });
}

}  // namespace batchflow::sim
