// Whether a selection policy chooses the samples of relaxed jobs, as the engine asks it.
#pragma once

#include "core/engine/policy_list.h"

namespace batchflow::test {

inline bool chooses_samples(const engine::PolicyChoice& selection) {
  return selection.make<engine::MakeSelection>(Random(1))->blocks_to_choose_from() > 0;
}

}  // namespace batchflow::test
