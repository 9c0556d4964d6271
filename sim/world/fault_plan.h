// Translates the faults of a scenario for the injector, which knows nodes and places but no links.
#pragma once

#include <vector>

#include "programs/input/scenario.h"
#include "sim/faults/fault_injector.h"
#include "sim/world/workload.h"

namespace batchflow::world {

std::vector<faults::Fault> fault_plan(const input::Scenario& scenario, const Workload& workload);

}  // namespace batchflow::world
