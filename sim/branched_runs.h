// Runs with one beginning: it is simulated once, and from its end on each goes on in a process of
// its own, with what is different about it.
#pragma once

#include <optional>
#include <vector>

#include "sim/planned_runs.h"

namespace batchflow::sim {

struct Branching {
  Scenario beginning;
  Instant at{};
  std::vector<PlannedRun> branches;
  std::vector<std::size_t> indices;  // of their results
};

// As run_all: by index, of `count`. The results of a group come together.
std::vector<std::optional<RunResult>> run_branches(const std::vector<Branching>& groups,
                                                   std::size_t count, const RunSettings& settings);

}  // namespace batchflow::sim
