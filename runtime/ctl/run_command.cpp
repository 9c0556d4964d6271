// batchflowctl run: runs the jobs of a simulator's scenario live, on a service.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "nlohmann/json.hpp"
#include "programs/input/yaml.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output_flags.h"
#include "programs/output/results.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/live_results.h"
#include "runtime/ctl/live_run.h"
#include "runtime/ctl/scenario_data.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

struct RunOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  std::vector<std::string> datasets;   // NAME=NAME or NAME=PATH
  std::vector<std::string> pipelines;  // NAME=NAME
  std::string make_data;               // a folder; empty: nothing is made
  std::string make_most = "1gib";
  double time_scale = 1;
  output::OutputFlags outputs;
};

input::Scenario scenario_of(const RunOptions& options) {
  config::ConfigNode tree = input::load_scenario(options.scenario);
  for (const std::string& text : options.overrides) {
    input::apply_override(tree, text);
    input::resolve_names(tree);  // the text may have named a cluster
  }
  input::Scenario scenario = input::read_scenario(tree);
  if (scenario.name.empty()) scenario.name = options.scenario;
  return scenario;
}

std::map<std::string, std::string> pairs(const char* flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> names;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw ConfigError(fmt::format("{} '{}': write NAME={}", flag, text,
                                    std::string_view(flag) == "--dataset" ? "PATH" : "PIPELINE"));
    names[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return names;
}

LiveNames names_of(const RunOptions& options, const input::Scenario& scenario) {
  LiveNames names;
  if (!options.make_data.empty()) {
    const std::optional<Bytes> most = parse_bytes(options.make_most);
    if (!most)
      throw ConfigError(
          fmt::format("--make-most {}: not a size; write 1gib or 1gb", options.make_most));
    names.datasets = make_data(scenario, options.make_data, *most);
    // Random bytes cannot be decoded.
    for (const input::PipelineModel& pipeline : scenario.pipelines)
      names.pipelines[pipeline.name] = "bytes";
  }
  for (auto& [name, path] : pairs("--dataset", options.datasets)) names.datasets[name] = path;
  for (auto& [name, live] : pairs("--pipeline", options.pipelines)) names.pipelines[name] = live;
  return names;
}

std::string text_of_run(const output::RunResult& run) {
  std::vector<std::vector<std::string>> rows = {
      {"job", "state", "ranks", "epochs", "samples", "time", "compute", "stall", "idle", "AU"}};
  for (const output::JobResult& job : run.jobs)
    rows.push_back({output::printable(job.name), job.state, fmt::format("{}", job.ranks),
                    fmt::format("{}", job.epochs), fmt::format("{}", job.samples),
                    fmt::format("{:.3g} s", job.time_s), fmt::format("{:.3g} s", job.compute_s),
                    fmt::format("{:.3g} s", job.stall_s), fmt::format("{:.3g} s", job.idle_s),
                    fmt::format("{:.1f} %", 100 * job.au)});
  std::string text = table(rows);
  text += fmt::format(
      "\n{}: {:.3g} s, {:.1f} samples/s, {:.1f} % stalled, {} samples prepared, {} bytes read, "
      "repeats {}\n{}\n",
      output::printable(run.scenario), run.makespan_s, run.aggregate.samples_per_s,
      100 * run.aggregate.stall_fraction, run.aggregate.preparations, run.aggregate.storage_bytes,
      run.aggregate.repeats, output::printable(run.remark));
  for (const output::JobResult& job : run.jobs) {
    if (!job.refusal.empty())
      text += fmt::format("job {} was refused: {}\n", output::printable(job.name),
                          output::printable(job.refusal));
  }
  if (!run.failure.empty()) text += fmt::format("failed: {}\n", output::printable(run.failure));
  return text;
}

// Each question has its own connection, since the service may restart during a run.
int run_scenario(const RunOptions& options, const std::string& service) {
  options.outputs.check(options.scenario);
  const input::Scenario scenario = scenario_of(options);
  const LiveNames names = names_of(options, scenario);
  const std::vector<toys::ToyJob> toys = make_toys(scenario, names, service, options.time_scale);
  const nlohmann::json before = ServiceClient(service).ask("status");
  const std::vector<toys::ToyOutcome> outcomes =
      toys::run_toys(toys, scenario.cluster.gpus(), output::was_interrupted);
  output::RunResult run = live_results(scenario, names, outcomes, options.time_scale, before,
                                       ServiceClient(service).ask("status"));
  run.interrupted = output::was_interrupted();
  if (options.outputs.wanted("json"))
    options.outputs.write("json",
                          output::results_json(std::span(&run, 1), "run", BATCHFLOW_VERSION));
  options.outputs.write_text(text_of_run(run));
  if (run.interrupted) return output::kInterrupted;
  const bool refused =
      std::any_of(run.jobs.begin(), run.jobs.end(),
                  [](const output::JobResult& job) { return !job.refusal.empty(); });
  return run.failure.empty() && !refused ? 0 : 1;
}

}  // namespace

void add_run_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command =
      app.add_subcommand(
             "run", "Run a scenario of the simulator live: its jobs sleep instead of computing")
          ->fallthrough();
  const auto options = std::make_shared<RunOptions>();
  command
      ->add_option("SCENARIO", options->scenario, "A file, or the name of one of configs/scenarios")
      ->required();
  command
      ->add_option("--set", options->overrides,
                   "path.to.key=value: changes the scenario (repeat it)")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--dataset", options->datasets,
          "NAME=PATH: the data of a dataset of the scenario: a name of the service's datasets,\n"
          "or a path; default: the same name")
      ->allow_extra_args(false);
  command
      ->add_option("--pipeline", options->pipelines,
                   "NAME=PIPELINE: the service's pipeline for a pipeline of the scenario; default: "
                   "the same name")
      ->allow_extra_args(false);
  command->add_option(
      "--make-data", options->make_data,
      "Make the scenario's datasets in this folder, of random bytes, and train on them as\n"
      "they are stored");
  command->add_option("--make-most", options->make_most, "The most bytes to make (default: 1gib)");
  command
      ->add_option("--time-scale", options->time_scale,
                   "Multiplies all times that jobs sleep: 0.1 is a tenth")
      ->check(output::number_between(0, 1e6));
  options->outputs.add(*command, "json", "JSON");
  command->callback([&service, &action, options] {
    action = [&service, options] { return run_scenario(*options, service); };
  });
}

}  // namespace batchflow::ctl
