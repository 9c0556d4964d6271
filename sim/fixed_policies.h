// The policies that all runs of a table or a file have in common. A label tells one run from the
// others, so what was chosen for all of them would be told nowhere.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "configs/reader/results.h"

namespace batchflow::sim {

// The preset, where all have one, and each kind in which a run differs from what its preset stands
// for and no two runs differ from each other. Runs that tell no policies are passed over.
std::vector<std::pair<std::string, std::string>> fixed_policies(
    std::span<const RunResult* const> runs);
std::vector<std::pair<std::string, std::string>> fixed_policies(std::span<const RunResult> runs);

// `preset=independent, eviction.encoded=lru`; empty where there are none.
std::string policies_text(const std::vector<std::pair<std::string, std::string>>& policies);

// A line for a table; empty where nothing was chosen but what is usual.
std::string fixed_policies_line(std::span<const RunResult> runs);

}  // namespace batchflow::sim
