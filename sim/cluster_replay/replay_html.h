// What a replay reports beyond its runs, as sections of a report with plots.
#pragma once

#include <span>
#include <string>

#include "programs/output/results.h"
#include "sim/cluster_replay/replay_report.h"

namespace batchflow::sim {

// Sections of run_html, with one line for each policy, however many seeds it has. `more` is HTML
// that stands among them, after the comparison.
std::string replay_html(std::span<const output::RunResult> runs, const Replayed& replayed,
                        const std::string& more = "");

// Sections of run_html, of what a replay did not find but was given: what the log says, what the
// overlay assumes, and what was left out or repaired.
std::string assumed_html(const Replayed& replayed);

}  // namespace batchflow::sim
