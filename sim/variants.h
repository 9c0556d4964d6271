// The runs that `--policy` of `run` asks for: one run, or several that are compared.
//
// `kind=name[:parameter=value...]` or `preset=name`; a comma starts another name, of the same kind
// unless it names its own. Names of one kind are compared, kinds are crossed. A preset stands for
// all kinds; kinds named beside it differ from it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine_config.h"
#include "core/engine/policy_list.h"
#include "programs/config/config.h"

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

}  // namespace batchflow::sim
