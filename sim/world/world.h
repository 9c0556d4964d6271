// A simulated world: the engine of the product, driven by SimGrid's clock.
//
// All that has happened at one instant becomes one step of the engine, and the world carries out
// the commands of that step. Faults come between the two as events: the journal and the digest hold
// the events and the commands of the engine. The world ends when all jobs are over, when it is told
// to stop, or when nothing is left to happen although jobs wait, which is a failure of the run.
#pragma once

#include <optional>
#include <string>

#include "core/engine/engine.h"
#include "core/engine/policy_list.h"
#include "core/log/event_codec.h"
#include "core/log/journal.h"
#include "sim/faults/fault_injector.h"
#include "sim/simulate.h"
#include "sim/world/backend.h"
#include "sim/world/batch_file.h"
#include "sim/world/job_ids.h"
#include "sim/world/jobs.h"
#include "sim/world/journal_file.h"
#include "sim/world/live_sources.h"
#include "sim/world/recorder.h"
#include "sim/world/watch.h"

namespace batchflow::world {

class World {
 public:
  // What decides: Engine::step, or a wrapper around it.
  using EngineStep =
      std::function<std::span<const engine::Command>(Instant, std::span<const engine::Event>)>;

  // `scenario` and `policies` outlive it. Throws ConfigError.
  World(const input::Scenario& scenario, const engine::PolicyList& policies,
        const sim::SimulateOptions& options);

  // For tests: decides instead of the engine.
  void decide_by(EngineStep step) { step_ = std::move(step); }
  engine::Engine& engine() { return engine_; }

  output::RunResult run();
  // No further than to `when`; `run` goes on from there. False: the run was over before.
  bool run_until(Instant when);

  // Events of changes while the world stands still, for the owner of the scenario that it refers
  // to.
  Reports& reports() { return reports_; }
  Backend& backend() { return backend_; }
  Platform& platform() { return platform_; }
  Kernel& kernel() { return kernel_; }
  const JobIds& job_ids() const { return ids_; }
  const LiveSources& live() const { return live_; }

  const Recorder& recorder() const { return recorder_; }
  const Counters& counters() const { return counters_; }
  std::uint64_t flows_started() const { return kernel_.flows_started(); }

 private:
  void begin();
  void instant();
  bool halt_at(Instant when);
  void warm_up();
  std::span<const engine::Command> decide(Instant now, std::span<const engine::Event> events);
  void change_store_load(std::size_t index);
  void set_speed(faults::FaultInjector::Part part, std::uint32_t which, double factor);
  void explain(char mark, const std::string& text) const;
  engine::Explain explainer() const;
  bool goes_on();
  output::RunResult result();
  void write_timeline(output::RunResult& run) const;
  std::string failure() const;
  output::Aggregate aggregate(const output::RunResult& run) const;
  output::SeriesPoint series_point() const;
  std::vector<output::FaultResult> fault_results(double end_s) const;

  const input::Scenario& scenario_;
  sim::SimulateOptions options_;
  Workload workload_;
  JobIds ids_;
  Kernel kernel_;
  Tasks tasks_;
  Platform platform_;
  Reports reports_;
  Counters counters_;
  std::optional<Timeline> timeline_;
  Watch watch_;
  Recorder recorder_;
  LiveSources live_;
  Jobs jobs_;
  Backend backend_;
  engine::Engine engine_;
  EngineStep step_;
  std::optional<faults::FaultInjector> faults_;
  log::CommandDigest digest_;
  JournalFile journal_;
  BatchFile batches_;
  // At the end of `warm_up`: what the figures over all jobs leave out.
  struct WarmUp {
    Instant ended;
    Counters counters;  // with what ranks had under way
    engine::EngineCounters engine;
  };
  std::optional<WarmUp> warm_up_;
  Instant wakes_for_fault_ = kNever;
  std::uint64_t steps_ = 0;
  bool begun_ = false;    // begin() was called
  bool stopped_ = false;  // as the caller wished: nothing goes on
};

}  // namespace batchflow::world
