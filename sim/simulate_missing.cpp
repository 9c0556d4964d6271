// In place of sim/world, where SimGrid is not installed.
#include "core/config_error.h"
#include "sim/simulate.h"

namespace batchflow::sim {

bool can_simulate() {
  return false;
}

RunResult simulate(const Scenario&, const SimulateOptions&) {
  throw ConfigError(
      "this batchflow-sim was built without SimGrid and cannot run scenarios; install it with: "
      "apt-get install libsimgrid-dev, and build again (./dev build does both)");
}

}  // namespace batchflow::sim
