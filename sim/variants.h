// In which policies runs differ, and which they have in common.
//
// `--policy` of `run` asks for one run, or several that are compared:
// `kind=name[:parameter=value...]` or `preset=name`; a comma starts another name, of the same kind
// unless it names its own. Names of one kind are compared, kinds are crossed. A preset stands for
// all kinds; kinds named beside it differ from it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/policy_list.h"
#include "programs/config/config.h"
#include "programs/output/results.h"

namespace batchflow::sim {

struct Variant {
  std::string label;  // what tells it from the others; empty when it is the only one
  std::vector<std::pair<std::string, std::string>> choices;  // kind or `preset`, and the name
};

// In the order in which they were named; the last kind changes first. Throws ConfigError.
std::vector<Variant> parse_variants(const engine::PolicyList& list,
                                    const std::vector<std::string>& texts);

// Refuses unknown policies of a scenario, with their source lines.
void check_policies(const engine::PolicyList& list, const engine::PolicyTexts& policies,
                    const config::ConfigNode& tree);

// Writes the choices into the tree of a scenario.
void apply_variant(const Variant& variant, config::ConfigNode& tree);

// The policies that all runs of a table or a file have in common; a label does not name them, since
// it tells runs apart. They are the preset, where all runs have one, and each kind in which the
// runs agree and differ from what their preset stands for. Runs that record no policies are passed
// over.
std::vector<std::pair<std::string, std::string>> fixed_policies(
    std::span<const output::RunResult* const> runs);
std::vector<std::pair<std::string, std::string>> fixed_policies(
    std::span<const output::RunResult> runs);

// `preset=independent, eviction.encoded=lru`; empty without policies.
std::string policies_text(const std::vector<std::pair<std::string, std::string>>& policies);

// Lines below a table: what is the same in all runs, unless it is the usual, and what may starve.
std::string policies_lines(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
