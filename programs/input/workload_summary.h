// What the jobs of a scenario train on, and how, in words: results carry it, so that those of two
// different scenarios are not compared in silence.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "programs/input/scenario.h"

namespace batchflow::input {

using WorkloadSummary = std::vector<std::pair<std::string, std::string>>;

// `dataset NAME`, `pipeline NAME` and `job NAME`, each with what was said of it. The same scenario
// has the same texts, simulated or run live. Jobs beyond the first kJobsSummed are one entry, with
// a digest of their texts.
inline constexpr std::size_t kJobsSummed = 64;
WorkloadSummary summary_of_workload(const Scenario& scenario);

// The text of a dataset.
std::string summary_of(const DatasetModel& dataset);

}  // namespace batchflow::input
