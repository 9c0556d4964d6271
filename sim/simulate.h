// One run of a scenario, from its first event to its last: what batchflow-sim asks of the simulated
// world. The world is a library of its own (sim/world), which alone links SimGrid; where SimGrid is
// not installed, simulate() says what to install.
//
// A process can simulate once, because SimGrid has one clock. A caller that wants several runs
// forks, also in the middle of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "programs/input/scenario.h"
#include "programs/output/results.h"

namespace batchflow::sim {

// The progress of a simulation, as it is shown to people.
struct RunProgress {
  double done = 0;         // part of the work that is done
  double simulated_s = 0;  // simulated time so far
  std::uint64_t jobs = 0;  // jobs that are over
};

struct SimulateOptions {
  std::string timeline;  // where the timeline goes (Chrome trace JSON); empty: nowhere
  std::uint64_t timeline_events = 1'000'000;  // at most
  std::string journal;                        // where the journal goes; empty: nowhere
  std::string batches;                        // where the samples of each batch go; empty: nowhere
  // Called with each event (<), decision of a policy (?) and command (>), in words with its time;
  // may be empty.
  std::function<void(const std::string&)> explain;
  // Asked when all is set up, after the first step of the engine, and often from then on. False:
  // stop here, with the results so far.
  std::function<bool(const RunProgress&)> goes_on;
};

// Throws ConfigError for a scenario that cannot be simulated.
output::RunResult simulate(const input::Scenario& scenario, const SimulateOptions& options);

// A run that can be halted and go on in several processes: what-ifs with one beginning.
class Simulation {
 public:
  virtual ~Simulation() = default;
  // False: the run ended before, or was told to end.
  virtual bool run_until(Instant when) = 0;
  // From now on policies, settings that the engine can change, the rate of the store, cores and
  // caches are those of `to`, which is the same in all else. REQUIRES: the store has a rate in
  // both.
  virtual void change_to(const input::Scenario& to) = 0;
  // Runs to the end.
  virtual output::RunResult run() = 0;
};
// Throws ConfigError, as simulate().
std::unique_ptr<Simulation> start_simulation(const input::Scenario& scenario,
                                             const SimulateOptions& options);

// Whether this program was built with a simulated world.
bool can_simulate();

}  // namespace batchflow::sim
