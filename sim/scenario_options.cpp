#include "sim/scenario_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/input/fault_trace.h"
#include "programs/input/mixed_workloads.h"
#include "programs/input/yaml.h"

namespace batchflow::sim {

void add_scenario_options(CLI::App& command, ScenarioOptions& options, const std::string& name,
                          const std::string& help) {
  command.add_option(name, options.scenario, help);
  command.add_option("--cluster", options.cluster,
                     "A file, or the name of one of configs/clusters: in place of the scenario's");
  command
      .add_option("--workload", options.workloads,
                  "A file, or the name of one of configs/workloads or scenarios: its jobs join\n"
                  "the others, with NAME@10min ten minutes later (repeat it). With --cluster it\n"
                  "takes the place of a scenario")
      ->allow_extra_args(false);
  command
      .add_option("--set", options.overrides,
                  "path.to.key=value: changes the scenario, also its cluster (repeat it)")
      ->allow_extra_args(false);
  command.add_option("--faults", options.faults,
                     "A CSV of nodes that were lost, with columns node, down and up");
  command.add_option("--skip", options.skip,
                     "Simulated time to leave out of the figures over all jobs, as 10min\n"
                     "(default: the scenario's warm_up)");
  command.add_option("--seed", options.seed, "In place of the scenario's")
      ->check(CLI::NonNegativeNumber);
}

namespace {

// The keys that the command line says for all workloads.
std::vector<std::string> settled_keys(const ScenarioOptions& options) {
  std::vector<std::string> settled;
  if (!options.cluster.empty()) settled.emplace_back("cluster");
  for (const std::string& text : options.overrides)
    settled.push_back(text.substr(0, text.find_first_of("=.")));
  return settled;
}

}  // namespace

config::ConfigNode scenario_tree(const ScenarioOptions& options, const Variant& variant,
                                 std::vector<std::string>& notes) {
  config::ConfigNode tree;
  if (!options.scenario.empty()) tree = input::load_scenario(options.scenario);
  const auto set = [&](const std::string& assignment) {
    input::apply_override(tree, assignment);
    input::resolve_names(tree);  // it may have named a cluster
  };
  if (!options.cluster.empty()) set("cluster=" + options.cluster);
  const std::vector<std::string> settled = settled_keys(options);
  for (const std::string& text : options.workloads) {
    const input::AddedWorkload added = input::parse_added_workload(text);
    const bool is_first = tree.find("jobs") == nullptr && tree.find("datasets") == nullptr;
    if (is_first && added.after.count() == 0 && options.workloads.size() == 1) {
      set("workload=" + added.name);
      continue;
    }
    for (std::string& note : input::add_workload(tree, added, settled))
      notes.push_back(std::move(note));
  }
  apply_variant(variant, tree);
  for (const std::string& text : options.overrides) set(text);
  if (!options.skip.empty()) input::apply_override(tree, "warm_up=" + options.skip);
  if (options.seed) input::apply_override(tree, fmt::format("seed={}", *options.seed));
  return tree;
}

input::Scenario scenario_of(const ScenarioOptions& options, const config::ConfigNode& tree,
                            std::vector<std::string>& notes) {
  input::Scenario scenario = input::read_scenario(tree);
  check_policies(policies::policy_list(), scenario.engine.policies, tree);
  if (scenario.name.empty()) scenario.name = options.scenario;
  for (const std::string& text : options.workloads) {
    if (!scenario.name.empty() && options.workloads.size() == 1 && options.scenario.empty()) break;
    scenario.name += (scenario.name.empty() ? "" : " + ") + text;
  }
  if (!options.faults.empty()) {
    const auto counts = input::add_fault_trace(scenario, options.faults);
    if (std::string text = input::text_of(counts, scenario); !text.empty())
      notes.push_back(std::move(text));
  }
  return scenario;
}

}  // namespace batchflow::sim
