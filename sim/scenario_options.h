// The scenario that a command line names: a file or a cluster, workloads, and what is changed of
// them. `run`, `check` and `search` share it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "programs/input/scenario.h"
#include "sim/variants.h"

namespace CLI {
class App;
}

namespace batchflow::sim {

struct ScenarioOptions {
  std::string scenario;
  std::string cluster;
  std::vector<std::string> workloads;  // NAME[@TIME]
  std::vector<std::string> overrides;
  std::string faults;  // a file; empty: none
  std::string skip;    // a duration; empty: the scenario's `warm_up`
  std::optional<std::uint64_t> seed;

  bool names_any() const { return !scenario.empty() || !workloads.empty(); }
};

// `name` is what the help calls the scenario, which may be a plugin for `check`.
void add_scenario_options(CLI::App& command, ScenarioOptions& options, const std::string& name,
                          const std::string& help);

// Each throws ConfigError. What was renamed where workloads are mixed, and which faults come from a
// file, is added to `notes`.
config::ConfigNode scenario_tree(const ScenarioOptions& options, const Variant& variant,
                                 std::vector<std::string>& notes);
input::Scenario scenario_of(const ScenarioOptions& options, const config::ConfigNode& tree,
                            std::vector<std::string>& notes);

}  // namespace batchflow::sim
