// The policy engine: a state machine. Events tell it what has happened; it answers with commands.
//
//   Engine engine(config, policy_list(), catalogues);
//   for (;;) {
//     collect events;
//     carry_out(engine.step(now, events));
//   }
//
// It reads no clock, does no I/O, takes no lock, and draws all random numbers from its own seed.
// The same events at the same times give the same commands, bit for bit, on every machine. The
// simulator and the live service call the same compiled code.
//
// Promises: in committed steps, no sample of a job's epoch is delivered twice or left out. No batch
// waits for another job to consume. No place holds more than its capacity. Nothing that a policy or
// a backend says can break these: wrong proposals and wrong reports are counted and change nothing.
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
#include "core/engine/question.h"

namespace batchflow::engine {

struct EngineCounters;

// How many of the first events one step should be handed, so that it stays short: 512, of which a
// join counts as eight. For the backend of a service.
std::size_t events_of_one_step(std::span<const Event> events);

class Engine {
 public:
  // `policies` and `catalogues` outlive the engine. `explain`, if given, is called for each
  // decision. Throws ConfigError for unknown policies.
  Engine(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
         Explain explain = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  // `now` never goes back: an earlier time counts as the latest one so far. The commands live until
  // the next call. They must be carried out in their order.
  std::span<const Command> step(Instant now, std::span<const Event> events);

  // What the last step promised, for the promise log.
  std::span<const Promise> promises() const;
  EngineCounters counters() const;
  // Eviction policies (`eviction=lru`, `eviction.encoded=mine:x=2`) that are shown the requests
  // from now on and decide nothing. They replace those of the last call. No command depends on
  // them. Throws ConfigError.
  void shadow(std::span<const std::string> policies);
  // What they would have hit, of the same requests as the policies that decide.
  struct Shadow {
    std::string eviction;  // `encoded`
    std::string policy;
    std::string live;  // the policy that decides
    std::uint64_t requests = 0;
    std::uint64_t live_hits = 0;
    std::uint64_t hits = 0;
    Bytes live_missed = 0;
    Bytes missed = 0;
  };
  std::vector<Shadow> shadows() const;
  // What a policy is asked right now, for code that finds within the call, or in another thread,
  // that the policy fails. False: no policy is asked anything.
  bool question(Question& to) const;
  // Policies that start nothing though a rank waits for a block that could be made (dispatch), or
  // that choose nothing though the oldest block of a job is ready (selection), and since when.
  struct Held {
    PolicyScope policy;
    Instant since;
    std::string shown;  // what the policy was shown when it was asked last
  };
  std::vector<Held> held_back() const;
  // Policies that proposed what was refused, and how often.
  struct Refusals {
    PolicyScope policy;
    std::uint64_t count;
    std::string last;  // what the policy was shown last, or why its last proposal was refused
  };
  std::vector<Refusals> refusals() const;
  // Whether that share or stream has a policy of its own (PolicyChanged). False, too, if it is
  // gone.
  bool has_own_policy(std::string_view policy) const;
  // What each job, rank and block waits for, as text: printed when a run gets stuck.
  std::string describe() const;
  // Recounts what is kept by increments, and BF_CHECKs that it agrees. For tests.
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
  std::uint64_t second_workers = 0;  // given a block that a first worker is late with
  std::uint64_t dropped_blocks = 0;
  std::uint64_t reads = 0;                // commands, retries included
  std::uint64_t samples_read = 0;         // a bundle counts as one
  std::uint64_t items_adopted = 0;        // that nodes had kept from before
  std::uint64_t samples_handed_over = 0;  // copied from nodes that end
  std::uint64_t samples_read_early = 0;   // of those read, before anything requested them
  std::uint64_t failed_reads = 0;
  std::uint64_t corrupt_samples = 0;
  std::uint64_t repeats = 0;  // samples that jobs had before with the same draws
  std::uint64_t stale_completions = 0;
  std::uint64_t protocol_errors = 0;    // events that contradict what went before
  std::uint64_t refused_proposals = 0;  // of policies
  // Requests of samples that are followed (core/engine/shadow_cache.h): what the shares hit, and
  // what they would have hit had they known all next uses.
  std::uint64_t followed_requests = 0;
  std::uint64_t followed_hits = 0;
  std::uint64_t followed_bound_hits = 0;
  std::uint64_t operations = 0;    // jobs looked at and needs weighed: the cost of deciding
  std::uint64_t node_slots = 0;    // kept for nodes, those that are gone included
  std::uint64_t worker_slots = 0;  // and for workers
};

}  // namespace batchflow::engine
