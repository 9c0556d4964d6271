// What all runs of a table or a file have in common: policies, settings of the engine, the cluster,
// and what was trained on. Every report says it, so that a table can be read without the command
// that made it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

using SetupPairs = std::vector<std::pair<std::string, std::string>>;

struct CommonSetup {
  SetupPairs policies;
  SetupPairs settings;  // of the engine, beside its policies
  SetupPairs cluster;
  SetupPairs workload;  // what was trained on, in words
  SetupPairs run;       // which part of a run the figures count
};
// Runs that record nothing, since they failed or an older version wrote them, are passed over.
CommonSetup common_setup(std::span<const output::RunResult> runs);

// Lines below a table: policies and settings that are the same in all runs and not the usual ones,
// the cluster, the names of what was trained on, and which policies may starve jobs.
std::string common_lines(std::span<const output::RunResult> runs);

// A section of a report, with all of it.
std::string common_html(std::span<const output::RunResult> runs);

// The object `more` of results with the member `same_in_all_runs`.
std::string with_common_setup(std::span<const output::RunResult> runs, const std::string& more);

}  // namespace batchflow::sim
