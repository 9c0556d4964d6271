#include "core/order/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/check.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {
namespace {

constexpr std::uint64_t kWordBits = 64;

std::uint64_t bit_of(SampleId sample) {
  return std::uint64_t{1} << sample.value % kWordBits;
}

}  // namespace

std::uint32_t weight_of_score(float score) {
  if (!(score > 0)) return 0;
  const double scaled = std::nearbyint(static_cast<double>(score) * 65536.0);
  return static_cast<std::uint32_t>(std::clamp(scaled, 1.0, double{UINT32_MAX}));
}

WeightTree::WeightTree(std::uint64_t samples, std::uint32_t first_weight)
    : samples_(samples),
      first_weight_(first_weight),
      groups_(divide_up(samples, kGroup)),
      greatest_step_(std::bit_floor(groups_)),
      total_(samples * first_weight),
      rank_(groups_),
      weights_(groups_ * kGroup),
      sums_(groups_ + 1) {
  BF_CHECK(samples <= kWeightedSamplesMost);
}

const std::uint32_t* WeightTree::group_of(SampleId sample) const {
  const std::uint32_t rank = rank_[sample.value / kGroup];
  return rank == 0 ? nullptr : &weights_[(rank - 1) * kGroup];
}

std::uint32_t* WeightTree::changed_group_of(SampleId sample) {
  std::uint32_t& rank = rank_[sample.value / kGroup];
  if (rank == 0) rank = ++groups_changed_;
  return &weights_[(rank - 1) * kGroup];
}

std::uint32_t WeightTree::weight(SampleId sample) const {
  BF_CHECK(sample.value < samples_);
  const std::uint32_t* group = group_of(sample);
  return first_weight_ + (group ? group[sample.value % kGroup] : 0);
}

void WeightTree::set(SampleId sample, std::uint32_t weight) {
  const std::uint32_t before = this->weight(sample);
  if (before == weight) return;
  changed_group_of(sample)[sample.value % kGroup] = weight - first_weight_;
  changes_ += hash(sample.value, weight) - hash(sample.value, before);
  const std::uint64_t difference = std::uint64_t{weight} - before;  // wraps, and so do the sums
  total_ += difference;
  for (std::uint64_t node = sample.value / kGroup + 1; node <= groups_; node += node & -node) {
    sums_[node] += difference;
  }
}

WeightTree::Found WeightTree::find(std::uint64_t point) const {
  BF_CHECK(point < total_);
  std::uint64_t group = 0;
  std::uint64_t before = 0;
  for (std::uint64_t step = greatest_step_; step > 0; step /= 2) {
    // The point lies below the total, so the last group (which may be short) is never passed over.
    if (group + step >= groups_) continue;
    // Whether the point lies beyond is as good as random, so there is no branch that could be
    // predicted wrong.
    const std::uint64_t sum = before + step * kGroup * first_weight_ + sums_[group + step];
    const bool beyond = sum <= point;
    before = beyond ? sum : before;
    group += beyond ? step : 0;
  }
  const std::uint64_t first = group * kGroup;
  const std::uint32_t* weights = group_of(SampleId(first));
  if (!weights) {
    const std::uint64_t index = (point - before) / first_weight_;
    return {SampleId(first + index), before + index * first_weight_};
  }
  for (std::uint64_t index = 0;; ++index) {
    const std::uint64_t next = before + (weights[index] + first_weight_);
    if (next > point) return {SampleId(first + index), before};
    before = next;
  }
}

Weights::Weights(std::uint64_t samples, std::uint32_t first_weight)
    : trees_{WeightTree(samples, first_weight), WeightTree(samples, first_weight)},
      words_(divide_up(samples, kWordBits)),
      settled_words_(words_),
      late_(words_),
      fresh_(words_) {}

void Weights::report(SampleId sample, std::uint32_t weight) {
  trees_[1 - frozen_].set(sample, weight);
  const std::uint64_t word = sample.value / kWordBits;
  late_[word] &= ~bit_of(sample);
  fresh_[word] |= bit_of(sample);
}

bool Weights::settle(std::uint64_t most) {
  for (std::uint64_t unit = 0; unit < most && !settled(); ++unit) {
    std::uint64_t& word = late_[settled_words_];
    if (word == 0) {
      ++settled_words_;
      continue;
    }
    const auto bit = static_cast<std::uint64_t>(std::countr_zero(word));
    word &= word - 1;
    const SampleId sample(settled_words_ * kWordBits + bit);
    trees_[1 - frozen_].set(sample, trees_[frozen_].weight(sample));
  }
  return settled();
}

void Weights::freeze() {
  BF_CHECK(settled());
  frozen_ = 1 - frozen_;
  std::swap(late_, fresh_);
  settled_words_ = 0;
}

}  // namespace batchflow::order
