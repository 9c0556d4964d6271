// How the rest of an epoch is cut into steps and the ranks' batches.
//
// It speaks of indices in the job's own sequence of N samples: a strict or sequential epoch, the
// draws of a weighted one, or the blocks that a relaxed job was granted, end to end. So it knows
// nothing of ids, blocks or randomness, and cuts every order alike. It is a value without state:
// everything follows from (consumed, ranks, batch size). So a job may go on at any other number of
// ranks, from any sample on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/check.h"

namespace batchflow::order {

// Indices [from, to) of a sequence.
struct IndexRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  constexpr std::uint64_t count() const { return to - from; }
  friend constexpr bool operator==(const IndexRange&, const IndexRange&) = default;
};

// What one rank gets in one step: its own indices, then fillers. Fillers repeat the tail of the
// epoch from its start, cyclically, so that all ranks get equal counts. A range that is not needed
// is empty.
struct RankBatch {
  IndexRange own;
  std::array<IndexRange, 2> fillers;
  constexpr std::uint64_t filler_count() const { return fillers[0].count() + fillers[1].count(); }
  constexpr std::uint64_t count() const { return own.count() + filler_count(); }
};

struct StepPlan {
  std::uint64_t samples = 0;        // N, of the whole epoch
  std::uint64_t consumed = 0;       // c, at most N; need not be a multiple of anything
  std::uint32_t ranks = 1;          // W
  std::uint32_t batch_samples = 1;  // b, of one rank
  bool drop_last = false;           // leave the tail out (at most W*b - 1 samples)

  // G: the samples of a whole step over all ranks.
  constexpr std::uint64_t step_samples() const { return std::uint64_t{ranks} * batch_samples; }
  // Steps left in the epoch.
  std::uint64_t steps() const;
  // The indices that step t covers over all ranks, without fillers. REQUIRES: t < steps()
  IndexRange step(std::uint64_t t) const {
    const std::uint64_t whole = step_samples();
    // A step that is not below steps() would begin behind the samples, however large t is.
    const std::uint64_t left = samples - consumed;
    const unsigned __int128 before = static_cast<unsigned __int128>(t) * whole;
    BF_CHECK(consumed <= samples && before + (drop_last ? whole : 1) <= left);
    const std::uint64_t from = consumed + static_cast<std::uint64_t>(before);
    return {from, from + std::min(whole, samples - from)};
  }
  // How many samples each rank gets in step t, its own and fillers together.
  std::uint64_t rank_samples(std::uint64_t t) const;
  // The rank that has index `index` as its own. REQUIRES: some step covers it
  std::uint32_t rank_at(std::uint64_t index) const;
  // REQUIRES: t < steps(), rank < ranks
  RankBatch batch(std::uint64_t t, std::uint32_t rank) const {
    const IndexRange indices = step(t);
    if (indices.count() != step_samples() || rank >= ranks) return tail(t, rank);
    const std::uint64_t from = indices.from + std::uint64_t{rank} * batch_samples;
    return {{from, from + batch_samples}, {}};
  }

 private:
  RankBatch tail(std::uint64_t t, std::uint32_t rank) const;
};

}  // namespace batchflow::order
