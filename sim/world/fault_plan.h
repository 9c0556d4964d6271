// Translates the faults of a scenario for the injector, which knows nodes and places but no links.
#pragma once

#include <vector>

#include "configs/reader/scenario.h"
#include "core/fault_injector.h"
#include "sim/world/workload.h"

namespace batchflow::sim {

std::vector<Fault> fault_plan(const Scenario& scenario, const Workload& workload);

}  // namespace batchflow::sim
