// What the engine might show to a policy, drawn at random, edges first: for the conformance and
// determinism suites and for the benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/engine/policy.h"

namespace batchflow::conformance {

// Zero, one, the powers of two and their neighbours, and numbers near 2^64.
inline std::uint64_t random_size(Random& random) {
  const std::uint64_t power = std::uint64_t{1} << random.below(64);
  switch (random.below(6)) {
    case 0:
      return random.below(3);
    case 1:
      return UINT64_MAX - random.below(3);
    case 2:
      return power - 1;
    case 3:
      return power;
    default:
      return random.below(power) + 1;
  }
}

inline std::vector<engine::ShareView> random_shares(Random& random, std::size_t count) {
  std::vector<engine::ShareView> shares;
  for (std::size_t i = 0; i < count; ++i) {
    engine::ShareView share{};
    share.share = ShareId(static_cast<std::uint32_t>(i));
    share.form = static_cast<Form>(random.below(kForms));
    share.dataset = DatasetId(static_cast<std::uint32_t>(random.below(4)));
    share.slot_bytes = Bytes{1} << random.below(41);
    if (random.below(2) == 0) share.slot_bytes = 1 + random.below(share.slot_bytes);
    share.slots_now = random_size(random) / 2;
    share.slots_least = random_size(random);
    share.slots_ahead = random.below(2) == 0 ? 0 : random_size(random);
    share.slots_all = random_size(random);
    share.jobs = random.below(3) == 0 ? 0 : static_cast<std::uint32_t>(random.below(300));
    share.requests_per_s = random.unit() * 1e6;
    share.hit_ratio = random.unit();
    share.slots_used = share.slots_now / 2;
    share.samples_all = random_size(random);
    share.weight = share.jobs * random.unit();
    share.stall = random.unit();
    share.wanted_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
    share.made_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
    share.worker_s = random.below(3) == 0 ? 0 : random.unit();
    share.store_bytes = random.below(3) == 0 ? 0 : random.unit() * 1e9;
    shares.push_back(share);
  }
  return shares;
}

inline engine::PlaceView random_place(Random& random,
                                      const std::vector<engine::ShareView>& shares) {
  engine::PlaceView place{{NodeId(1), Tier::dram, 0}, random_size(random), shares};
  place.now = Instant(Duration(random.below(1'000'000'000'000)));
  place.workers = static_cast<std::uint32_t>(random.below(100));
  place.busy = random.unit();
  place.waits_for_reads = 1 - place.busy;
  place.store_bytes_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e10;
  return place;
}

// Distances ascend from 0 or later, as the order offers them.
inline std::vector<engine::SelectionCandidate> random_selection(Random& random, std::size_t count) {
  std::vector<engine::SelectionCandidate> candidates;
  const std::uint64_t ready_in_four = random.below(5);
  auto distance = static_cast<std::uint32_t>(random.below(2));
  for (std::size_t i = 0; i < count; ++i) {
    const bool ready = random.below(4) < ready_in_four;
    candidates.push_back({distance, ready, 1 + static_cast<std::uint32_t>(random.below(64)),
                          ready ? random.unit() * 100 : 0});
    distance += 1 + static_cast<std::uint32_t>(random.below(3));
  }
  return candidates;
}

// One candidate a job; `asked` is unique, and in no particular order.
inline std::vector<engine::WorkCandidate> random_work(Random& random, std::size_t count) {
  std::vector<engine::WorkCandidate> candidates;
  for (std::size_t i = 0; i < count; ++i) {
    engine::WorkCandidate candidate{};
    candidate.job = JobId(static_cast<std::uint32_t>(i));
    candidate.stream = StreamId(static_cast<std::uint32_t>(random.below(3)));
    candidate.asked = 1 + i;
    candidate.distance = static_cast<std::uint32_t>(random.below(5));
    candidate.depth = static_cast<std::uint32_t>(random.below(9));
    candidate.deadline = Instant(Duration(random.below(50) * 1'000'000));
    candidate.waiting = candidate.distance == 0 ? static_cast<std::uint32_t>(random.below(9)) : 0;
    candidate.needed_by = 1 + static_cast<std::uint32_t>(random.below(8));
    candidate.lead = static_cast<std::uint32_t>(random.below(2) == 0 ? 0 : random_size(random));
    candidate.cached = random.unit();
    candidate.prepare_s = random.unit() * 10;
    candidate.stall_fraction = random.unit();
    candidate.last_served = random.below(3) == 0 ? random_size(random) : random.below(10);
    candidate.weight = random.below(3) == 0 ? 1 : random.unit() * 1e6;
    candidate.latency_target =
        std::chrono::milliseconds(random.below(3) == 0 ? random.below(3'600'000) : 0);
    candidate.recent_stall = random.unit();
    candidate.wanted_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
    candidate.blocks_left = random_size(random);
    candidate.block_bytes = 1 + random_size(random) / 2;
    candidate.window = random_size(random);
    candidate.remake = random.below(4) == 0;
    candidates.push_back(candidate);
  }
  std::vector<std::uint64_t> asked(count);
  for (std::size_t i = 0; i < count; ++i) asked[i] = candidates[i].asked;
  shuffle(std::span(asked), random);
  for (std::size_t i = 0; i < count; ++i) candidates[i].asked = asked[i];
  return candidates;
}

inline engine::NodeView random_node(Random& random) {
  engine::NodeView node{};
  node.node = NodeId(static_cast<std::uint32_t>(random.below(8)));
  node.workers_most = static_cast<std::uint32_t>(random_size(random));
  node.workers_now =
      node.workers_most == 0 ? 0 : static_cast<std::uint32_t>(random.below(node.workers_most));
  node.busy = node.workers_now / 2;
  node.ready_to_prepare = static_cast<std::uint32_t>(random_size(random));
  node.prepare_s = random.unit();
  node.stall_fraction = random.unit();
  node.now = Instant(Duration(random.below(1'000'000'000'000)));
  node.busy_part = random.unit();
  node.waits_for_reads = 1 - node.busy_part;
  node.made_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
  node.wanted_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
  return node;
}

inline engine::JobView random_job(Random& random) {
  engine::JobView job{};
  job.job = JobId(static_cast<std::uint32_t>(random.below(8)));
  job.ranks = 1 + static_cast<std::uint32_t>(random.below(64));
  job.step_s = random.below(4) == 0 ? 0 : random.unit();
  job.prepare_s = random.below(4) == 0 ? 0 : random.unit() * 100;
  job.blocks_per_step = random.unit() * 8;
  job.stall_fraction = random.unit();
  job.window = static_cast<std::uint32_t>(random_size(random));
  job.now = Instant(Duration(random.below(1'000'000'000'000)));
  job.wanted_per_s = random.below(3) == 0 ? 0 : random.unit() * 1e6;
  return job;
}

}  // namespace batchflow::conformance
