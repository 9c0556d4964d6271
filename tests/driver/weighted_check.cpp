#include "tests/driver/weighted_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/order/weights.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

WeightedCheck::WeightedCheck(std::uint64_t samples, std::uint64_t draws, bool multinomial)
    : draws_(draws),
      multinomial_(multinomial),
      weights_(samples, order::weight_of_score(1)),
      counts_(samples, 0) {}

void WeightedCheck::joined_anew() {
  weights_.assign(weights_.size(), order::weight_of_score(1));
  candidates_ = {weights_};
  begun_ = false;
}

void WeightedCheck::scored(SampleId sample, float score) {
  if (sample.value >= weights_.size()) return;
  weights_[sample.value] = order::weight_of_score(score);
  if (!begun_) frozen_at_any(weights_);
}

void WeightedCheck::frozen_at_any(const Weights& weights) {
  if (candidates_.empty() || candidates_.back() != weights) candidates_.push_back(weights);
}

void WeightedCheck::handed() {
  begun_ = true;
}

bool WeightedCheck::may_be_empty() const {
  return std::any_of(candidates_.begin(), candidates_.end(), [](const Weights& weights) {
    return std::all_of(weights.begin(), weights.end(), [](std::uint32_t one) { return one == 0; });
  });
}

void WeightedCheck::count(SampleId sample, std::uint64_t generation, std::uint64_t occurrence) {
  if (visits_.empty()) generation_ = generation;
  if (generation != generation_) violated("one epoch is drawn from two sets of weights");
  if (earlier_.count(generation) != 0) violated("an epoch with the draws of an earlier one");
  if (!visits_.emplace(sample.value, occurrence).second) {
    violated(fmt::format("sample {} twice as its visit {}", sample.value, occurrence));
  }
  ++counts_[sample.value];
}

void WeightedCheck::restart_epoch() {
  visits_.clear();
  std::fill(counts_.begin(), counts_.end(), 0);
}

void WeightedCheck::end_epoch(std::uint64_t left_out) {
  std::string problem;
  for (const Weights& weights : candidates_) {
    problem = objection(weights, left_out);
    if (problem.empty()) break;
  }
  if (!problem.empty()) violated(problem);
  if (!visits_.empty()) earlier_.insert(generation_);
  restart_epoch();
  begun_ = false;
  candidates_ = {weights_};
}

// Empty, or why the counts cannot be of draws from these weights.
std::string WeightedCheck::objection(const Weights& weights, std::uint64_t left_out) const {
  const auto total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  if (total == 0) return "draws from weights that are all zero";
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const unsigned __int128 share = static_cast<unsigned __int128>(draws_) * weights[i];
    const auto least = static_cast<std::uint64_t>(share / total);
    const std::uint64_t most =
        multinomial_ ? (weights[i] == 0 ? 0 : draws_) : least + (share % total == 0 ? 0 : 1);
    if (counts_[i] > most) {
      return fmt::format("sample {} drawn {} times, at most {} by its weight", i, counts_[i], most);
    }
    if (!multinomial_ && counts_[i] < least) missing += least - counts_[i];
  }
  if (missing <= left_out) return "";
  return fmt::format("{} draws fewer than weights promise, {} were left out", missing, left_out);
}

}  // namespace batchflow::test
