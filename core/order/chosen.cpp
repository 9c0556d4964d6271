#include "core/order/chosen.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::order {

ChosenEpoch::ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples)
    : epoch_(epoch), samples_(samples), order_(generation_key(root, epoch), samples) {}

std::span<const ChosenEpoch::Candidate> ChosenEpoch::candidates(std::size_t most) {
  while (waiting_.size() < most && next_ < samples_) {
    waiting_.push_back({SampleId(order_(next_++))});
  }
  return std::span(waiting_).first(std::min(most, waiting_.size()));
}

void ChosenEpoch::take(std::span<const std::uint32_t> picks, std::size_t offered) {
  BF_CHECK(offered <= waiting_.size());
  constexpr std::uint32_t kTaken = UINT32_MAX;
  for (const std::uint32_t pick : picks) {
    Candidate& one = waiting_[pick];
    BF_CHECK(pick < offered && one.passed_over != kTaken);
    taken_.push_back(one.sample);
    one.passed_over = kTaken;
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Candidate one = waiting_[i];
    if (one.passed_over == kTaken) continue;
    if (i < offered && one.passed_over < kTaken - 1) ++one.passed_over;
    waiting_[left++] = one;
  }
  waiting_.resize(left);
}

void ChosenEpoch::fill(std::uint64_t first, std::span<Draw> out) const {
  BF_CHECK(first + out.size() <= taken_.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = {taken_[first + i], 0};
}

}  // namespace batchflow::order
