// The jobs of a scenario, written one by one or generated: `count` of them, one `every` so often.
#pragma once

#include <vector>

#include "programs/input/scenario.h"

namespace batchflow::input {

// REQUIRES: cluster, datasets, pipelines, grain and seed of the scenario are there already.
std::vector<JobModel> read_jobs(config::ConfigSection& section, const Scenario& scenario);

}  // namespace batchflow::input
