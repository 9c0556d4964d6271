// Runs with a common beginning. The beginning is simulated once; from its end each run goes on in a
// process of its own, with its own differences.
#pragma once

#include <optional>
#include <vector>

#include "sim/planned_runs.h"

namespace batchflow::sim {

struct Branching {
  input::Scenario beginning;
  Instant at{};
  std::vector<PlannedRun> branches;
  std::vector<std::size_t> indices;  // of their results
};

// The results by index, of `count`, as run_all gives them. The results of a group come together.
std::vector<std::optional<output::RunResult>> run_branches(const std::vector<Branching>& groups,
                                                           std::size_t count,
                                                           const RunSettings& settings);

}  // namespace batchflow::sim
