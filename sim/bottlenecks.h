// What a run would gain from twice as much of something: found by running it again with twice as
// much of it. A job that waits for a resource need not gain from more of it, because the next
// resource may be as slow; the second run shows it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "programs/input/scenario.h"
#include "programs/output/results.h"

namespace batchflow::sim {

// The scenario with twice as much of one resource, for each resource. Their names: the rate of the
// store (storage) or of the nodes' drives, the cores, the workers of each job, the cache (in memory
// and on drives), the rates of all cards and links (network), of memory, or of PCIe. A resource
// without a limit is left out.
std::vector<std::pair<std::string, input::Scenario>> with_double_resources(
    const input::Scenario& scenario);

output::Gain gain_of(const std::string& resource, const output::RunResult& run,
                     const output::RunResult& doubled);

// A table for people, of runs with their `bottlenecks`.
std::string bottleneck_table(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
