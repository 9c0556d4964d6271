// The policy engine: a state machine that is told what has happened and says what to do.
//
//   Engine engine(config, policy_list(), catalogues);
//   for (;;) {
//     collect events;
//     carry_out(engine.step(now, events));
//   }
//
// It reads no clock, does no I/O, takes no lock and draws from no source of chance but its own:
// the same events at the same times give the same commands, bit for bit, on every machine. A
// simulator and a live service call the same compiled code.
//
// Promises: no sample of a job's epoch is delivered twice or left out (of committed steps), no
// batch waits for another job to consume, no place holds more than its capacity, and whatever a
// policy or a backend says, none of that breaks: wrong proposals and wrong reports are counted and
// change nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/engine/explain.h"
#include "core/engine/policy_list.h"
#include "core/engine/promise.h"

namespace batchflow::engine {

struct EngineCounters;

class Engine {
 public:
  // `policies` and `catalogues` outlive the engine. `explain` is told of each decision, if it is
  // given. Throws ConfigError for unknown policies.
  Engine(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
         Explain explain = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  // `now` never goes back; an earlier one counts as the latest seen. The commands live until the
  // next call, and are to be carried out in their order.
  std::span<const Command> step(Instant now, std::span<const Event> events);

  // What the last step promised, for the promise log.
  std::span<const Promise> promises() const;
  EngineCounters counters() const;
  // Who waits for what, for people: printed when a run gets stuck.
  std::string describe() const;
  // Recounts what is kept by increments and BF_CHECKs that it agrees: for tests.
  void check_consistency() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct EngineCounters {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;         // delivered, fillers included
  std::uint64_t copied_batches = 0;  // gathered from several blocks or nodes
  std::uint64_t preparations = 0;    // of blocks
  std::uint64_t remakes = 0;         // of these, of blocks that had been made before
  std::uint64_t second_workers = 0;  // given a block whose first worker was late
  std::uint64_t dropped_blocks = 0;
  std::uint64_t reads = 0;  // orders, retries included
  std::uint64_t samples_read = 0;
  std::uint64_t failed_reads = 0;
  std::uint64_t corrupt_samples = 0;
  std::uint64_t repeats = 0;  // samples that jobs had before with the same draws
  std::uint64_t stale_completions = 0;
  std::uint64_t protocol_errors = 0;    // events that contradict what went before
  std::uint64_t refused_proposals = 0;  // of policies
  std::uint64_t operations = 0;         // jobs looked at and needs weighed: the cost of deciding
  std::uint64_t node_slots = 0;         // kept for nodes, those that are gone included
  std::uint64_t worker_slots = 0;       // and for workers
};

}  // namespace batchflow::engine
