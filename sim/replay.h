// Replays an access trace through one eviction policy at one cache size, and counts.
#pragma once

#include <cstdint>
#include <functional>

#include "core/engine/policy_list.h"
#include "traces/access_trace.h"

namespace batchflow::sim {

struct ReplayCounts {
  std::uint64_t requests = 0;
  std::uint64_t misses = 0;   // read from the store
  std::uint64_t fetches = 0;  // read from another node's memory
  Bytes bytes_requested = 0;
  Bytes bytes_missed = 0;
  std::uint64_t evictions = 0;
  std::uint64_t refused = 0;  // proposals of the policy that broke a rule

  double miss_ratio() const;
  double byte_miss_ratio() const;
  double fetch_ratio() const;
  friend bool operator==(const ReplayCounts&, const ReplayCounts&) = default;
};

struct AccessReplayOptions {
  std::uint64_t seed = 1;   // of policies that draw
  std::uint32_t nodes = 1;  // that share the cache; more than one only through the engine
  // Called now and then with the requests replayed since the last call; may throw to end the
  // replay.
  std::function<void(std::uint64_t)> progress;
};

// One slot is one unit of size: an item takes exactly its size.
using Replayer = ReplayCounts (*)(const traces::AccessTrace& trace,
                                  const engine::PolicyChoice& policy, Bytes capacity,
                                  const AccessReplayOptions& options);

// Straight through a Share, without an engine around it.
ReplayCounts replay_through_share(const traces::AccessTrace& trace,
                                  const engine::PolicyChoice& policy, Bytes capacity,
                                  const AccessReplayOptions& options);

// Through Engine::step, as a job that lists its samples; a miss is a read that the engine commands.
// On one node the counts are the same, and it is many times slower: it shows that the engine's
// cache is the one that was studied. On several nodes each has its part of the capacity and a rank
// of the job, and the ranks make the requests in turn.
ReplayCounts replay_through_engine(const traces::AccessTrace& trace,
                                   const engine::PolicyChoice& policy, Bytes capacity,
                                   const AccessReplayOptions& options);

// The random numbers that both give a policy.
Random trace_policy_random(std::uint64_t seed);

}  // namespace batchflow::sim
