// What a weighted job is promised, checked from the ids it was handed and the scores it reported.
//
// An epoch has exactly M draws. In a systematic epoch sample i occurs floor or ceil of M q_i / T
// times, by the weights as they stood between the end of the last epoch and the first batch of this
// one; which step of the engine froze them cannot be seen from outside, so any moment in between
// will do, and no later one. In a multinomial epoch a sample without weight does not occur. No
// visit of a sample is made twice with the same draws.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"

namespace batchflow::test {

class WeightedCheck {
 public:
  WeightedCheck(std::uint64_t samples, std::uint64_t draws, bool multinomial);

  // A service that knows nothing of earlier scores.
  void joined_anew();
  void scored(SampleId sample, float score);
  // A batch is handed over: what is reported from now on counts for the next epoch.
  void handed();
  // One draw of a step that counts. Throws Violation.
  void count(SampleId sample, std::uint64_t generation, std::uint64_t occurrence);
  // `left_out` of its draws were not handed over. Throws Violation.
  void end_epoch(std::uint64_t left_out);
  // What counted of this epoch is void: it is drawn anew.
  void restart_epoch();

  bool is_of_epoch(std::uint64_t generation) const {
    return visits_.empty() || generation == generation_;
  }
  // Whether nothing can be drawn from weights as they stood at some moment they may be frozen at.
  bool may_be_empty() const;

 private:
  using Weights = std::vector<std::uint32_t>;

  void frozen_at_any(const Weights& weights);
  std::string objection(const Weights& weights, std::uint64_t left_out) const;

  const std::uint64_t draws_;
  const bool multinomial_;
  Weights weights_;                  // as of what was reported
  std::vector<Weights> candidates_;  // what the running epoch may be drawn from
  bool begun_ = false;               // the running epoch: its weights are frozen
  std::uint64_t generation_ = 0;     // of the running epoch
  std::set<std::uint64_t> earlier_;  // generations of epochs that are over
  std::set<std::pair<std::uint64_t, std::uint64_t>> visits_;  // sample, occurrence
  std::vector<std::uint64_t> counts_;
};

}  // namespace batchflow::test
