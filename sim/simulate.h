// One run of a scenario, from its first event to its last: what batchflow-sim asks of the simulated
// world. It is in a library of its own (sim/world), which alone links SimGrid; where that is not
// installed, simulate() says what to install.
//
// A process can simulate once: SimGrid has one clock. Whoever wants several runs forks, also in the
// middle of one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "configs/reader/results.h"
#include "configs/reader/scenario.h"
#include "sim/how_far.h"

namespace batchflow::sim {

struct SimulateOptions {
  std::string timeline;  // where the timeline goes (Chrome trace JSON); empty: nowhere
  std::uint64_t timeline_events = 1'000'000;  // at most
  std::string journal;                        // where the trace journal goes; empty: nowhere
  // Told each event (<), decision of a policy (?) and order (>) with its time, in words; empty:
  // nobody is.
  std::function<void(const std::string&)> explain;
  // Asked when all is set up, after the first step of the engine, and often from then on; false:
  // stop here, with the results so far.
  std::function<bool(const HowFar&)> goes_on;
};

// Throws ConfigError for what the scenario asks for and cannot be simulated.
RunResult simulate(const Scenario& scenario, const SimulateOptions& options);

// A run that can be halted on its way and go on in several processes: what-ifs with one beginning.
class Simulation {
 public:
  virtual ~Simulation() = default;
  // False: it ended before, or was told to.
  virtual bool run_until(Instant when) = 0;
  // From now on policies, settings that the engine can change, the rate of the store, cores and
  // caches are those of `to`, which is the same in all else. REQUIRES: the store has a rate in
  // both.
  virtual void change_to(const Scenario& to) = 0;
  // To its end.
  virtual RunResult run() = 0;
};
// Throws ConfigError, as simulate().
std::unique_ptr<Simulation> start_simulation(const Scenario& scenario,
                                             const SimulateOptions& options);

// Whether there is anything to simulate with.
bool can_simulate();

}  // namespace batchflow::sim
