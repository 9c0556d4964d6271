// Stands in for sim/world where SimGrid is not installed.
#include "core/base/config_value.h"
#include "sim/simulate.h"

namespace batchflow::sim {

bool can_simulate() {
  return false;
}

std::unique_ptr<Simulation> start_simulation(const input::Scenario&, const SimulateOptions&) {
  throw ConfigError(
      "this batchflow-sim was built without SimGrid and cannot run scenarios; install it with: "
      "apt-get install libsimgrid-dev, and build again (./dev build does both)");
}

output::RunResult simulate(const input::Scenario& scenario, const SimulateOptions& options) {
  return start_simulation(scenario, options)->run();
}

}  // namespace batchflow::sim
