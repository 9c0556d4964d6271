// How much samples matter to a simulated job of a weighted order: the scores that it reports after
// each batch, by a model or as a training has recorded them.
#pragma once

#include <cstdint>
#include <string>

#include "programs/config/config.h"

namespace batchflow::input {

struct Importance {
  // The model: scores of a lognormal distribution, e to the power of `spread` times a normal
  // number. A sample keeps its number, but for a part that each epoch draws anew: `drift` squared
  // of its variance.
  double spread = 0;     // 0: nothing is reported, unless there is a recording
  double drift = 0;      // from 0 to 1
  std::string recorded;  // the file of a recording (recorded_scores.h); empty: none

  bool reports() const { return spread > 0 || !recorded.empty(); }
  // The score by the model.
  float score(std::uint64_t seed, std::uint64_t sample, std::uint32_t epoch) const;
};

// `samples` and `samples_per_item`: of the job's dataset. A recording is checked, and not kept.
Importance read_importance(config::ConfigSection& section, std::uint64_t samples,
                           std::uint32_t samples_per_item);

}  // namespace batchflow::input
