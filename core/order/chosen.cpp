#include "core/order/chosen.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::order {

ChosenEpoch::ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples)
    : epoch_(epoch), samples_(samples), order_(generation_key(root, epoch), samples) {}

ChosenEpoch::ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples,
                         std::uint64_t taken, std::span<const std::uint64_t> left_out,
                         std::uint64_t rest)
    : ChosenEpoch(root, epoch, samples) {
  BF_CHECK(rest <= taken && left_out.size() <= samples && taken <= samples - left_out.size());
  next_ = taken + left_out.size();
  before_ = taken - rest;
  for (const std::uint64_t index : left_out)
    waiting_.push_back({SampleId(order_(index)), 0, index});
  auto left = left_out.rbegin();
  for (std::uint64_t index = next_; taken_.size() < rest;) {
    --index;
    if (left != left_out.rend() && *left == index) {
      ++left;
    } else {
      taken_.push_front(index);
    }
  }
}

std::span<const ChosenEpoch::Candidate> ChosenEpoch::candidates(std::size_t most) {
  while (waiting_.size() < most && next_ < samples_) {
    waiting_.push_back({SampleId(order_(next_)), 0, next_});
    ++next_;
  }
  return std::span(waiting_).first(std::min(most, waiting_.size()));
}

void ChosenEpoch::take(std::span<const std::uint32_t> picks, std::size_t offered) {
  BF_CHECK(offered <= waiting_.size());
  constexpr std::uint32_t kTaken = UINT32_MAX;
  for (const std::uint32_t pick : picks) {
    Candidate& one = waiting_[pick];
    BF_CHECK(pick < offered && one.passed_over != kTaken);
    taken_.push_back(one.index);
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
  BF_CHECK(first >= before_ && first + out.size() <= taken());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = {SampleId(order_(taken_[first - before_ + i])), 0};
}

void ChosenEpoch::add_indices(std::uint64_t first, std::uint64_t end,
                              std::vector<std::uint64_t>& out) const {
  BF_CHECK(first >= before_ && first <= end && end <= taken());
  for (std::uint64_t at = first; at < end; ++at) out.push_back(taken_[at - before_]);
}

}  // namespace batchflow::order
