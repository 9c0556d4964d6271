// What a run would gain from twice of something: found by running it again so. A job that waits for
// a thing need not gain from more of it (the next thing is as slow), and this tells.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "configs/reader/results.h"
#include "configs/reader/scenario.h"

namespace batchflow::sim {

// The scenario with twice the rates of the store (storage) or of nodes' drives, the cores, the
// workers of each job, the cache (in memory and on drives), the rates of all cards and links
// (network), of memory, or of PCIe, by these names. What has no limit is left out.
std::vector<std::pair<std::string, Scenario>> relieved(const Scenario& scenario);

Gain gain_of(const std::string& resource, const RunResult& run, const RunResult& relieved);

// For people; of runs with their `bottlenecks`.
std::string bottleneck_table(std::span<const RunResult> runs);

}  // namespace batchflow::sim
