// The policies that all runs of a table or a file have in common. A label tells runs apart, so it
// does not name what was chosen for all of them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

// The preset, where all runs have one, and each kind in which the runs agree and differ from what
// their preset stands for. Runs that record no policies are passed over.
std::vector<std::pair<std::string, std::string>> fixed_policies(
    std::span<const output::RunResult* const> runs);
std::vector<std::pair<std::string, std::string>> fixed_policies(
    std::span<const output::RunResult> runs);

// `preset=independent, eviction.encoded=lru`; empty without policies.
std::string policies_text(const std::vector<std::pair<std::string, std::string>>& policies);

// A line for a table; empty where only the usual was chosen.
std::string fixed_policies_line(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
