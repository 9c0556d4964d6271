// Rehearsal: each rank's batch is part new samples, in the plain order and exactly once, and part
// exemplars from a buffer, which makes promises of its own and is flagged in every batch.
#pragma once

#include <cstdint>

#include "core/check.h"
#include "core/step_plan.h"

namespace batchflow {

struct RehearsalPlan {
  StepPlan plain;               // with b - m samples a rank
  std::uint32_t rehearsed = 0;  // m, of each rank's b

  // REQUIRES: rehearsed < whole.batch_samples
  static RehearsalPlan split(StepPlan whole, std::uint32_t rehearsed) {
    BF_CHECK(rehearsed < whole.batch_samples);
    whole.batch_samples -= rehearsed;
    return {whole, rehearsed};
  }
  // ceil(N / (W(b - m))) from the start, without drop_last.
  std::uint64_t steps() const { return plain.steps(); }
  // Which of the buffer's draws from here on a rank gets in step t.
  Places buffer_draws(std::uint64_t t, std::uint32_t rank) const {
    BF_CHECK(t < steps() && rank < plain.ranks);
    const std::uint64_t first = (t * plain.ranks + rank) * rehearsed;
    return {first, first + rehearsed};
  }
};

}  // namespace batchflow
