// The integer weights of a weighted order, from which samples are drawn while new scores come in.
//
// Weights are frozen for an epoch; scores that arrive meanwhile count for the next. So there are
// two trees: a frozen one to draw from, and one that takes the reports. At the start of an epoch
// they change roles in O(1). What the other tree then lacks is copied in slices (`settle`) before
// the next change. No call does work proportional to the number of samples, construction included.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/base/types.h"
#include "core/base/zero_array.h"

namespace batchflow::order {

// The most samples of a weighted order, so that the sum of weights fits into 64 bits.
inline constexpr std::uint64_t kWeightedSamplesMost = std::uint64_t{1} << 31;

// A score as a weight, with 16 bits after the point. A score that is not positive is never drawn;
// any positive score can be. Infinity is the greatest weight.
std::uint32_t weight_of_score(float score);

// Weights with their running sums. Sums are kept of groups, in a Fenwick tree small enough for a
// near cache; inside a group, weights are added up. Everything is stored as the difference from the
// common first weight, so that zeroed memory is the right beginning. Groups get their memory in the
// order in which they are first changed. Otherwise scores of samples far apart would each be the
// first to touch a page, which costs more than all the rest of a report.
class WeightTree {
 public:
  // REQUIRES: samples <= kWeightedSamplesMost
  WeightTree(std::uint64_t samples, std::uint32_t first_weight);

  std::uint64_t samples() const { return samples_; }
  std::uint64_t total() const { return total_; }
  // A digest of the weights: equal for equal weights, however they came about.
  Digest digest() const { return hash(samples_, first_weight_, changes_); }
  // REQUIRES for all: sample < samples()
  std::uint32_t weight(SampleId sample) const;
  void set(SampleId sample, std::uint32_t weight);

  struct Found {
    SampleId sample;
    std::uint64_t before;  // the sum of the weights of all samples before it
  };
  // The sample that covers `point` of the running sum. REQUIRES: point < total()
  Found find(std::uint64_t point) const;

 private:
  static constexpr std::uint64_t kGroup = 64;

  // Where the weights of the sample's group are; null: nowhere, all have the first weight.
  const std::uint32_t* group_of(SampleId sample) const;
  std::uint32_t* changed_group_of(SampleId sample);

  std::uint64_t samples_;
  std::uint32_t first_weight_;
  std::uint64_t groups_;
  std::uint64_t greatest_step_ = 0;  // the greatest power of two <= groups_, 0 if there is none
  std::uint64_t total_;
  std::uint64_t changes_ = 0;  // a sum of hashes over the samples that differ
  std::uint32_t groups_changed_ = 0;
  ZeroArray<std::uint32_t> rank_;     // of a group among those changed, from 1; 0: it is not
  ZeroArray<std::uint32_t> weights_;  // of those, minus the first weight, wrapping
  ZeroArray<std::uint64_t> sums_;     // node g + 1: of the groups it covers, likewise
};

class Weights {
 public:
  Weights(std::uint64_t samples, std::uint32_t first_weight);

  // The weights of the running epoch. Valid until the next freeze.
  const WeightTree& frozen() const { return trees_[frozen_]; }
  // The weight reported last, from which the next epoch will draw.
  std::uint32_t newest(SampleId sample) const { return trees_[1 - frozen_].weight(sample); }
  // A few memory accesses. REQUIRES: sample < samples
  void report(SampleId sample, std::uint32_t weight);

  // Does at most `most` units of work, each less than a microsecond. Returns settled().
  bool settle(std::uint64_t most);
  // True when nothing is left to copy: the next epoch may begin.
  bool settled() const { return settled_words_ == words_; }
  // The newest weights become the frozen ones. REQUIRES: settled()
  void freeze();

 private:
  // A bit a sample. `late`: the frozen tree has a value that the other tree lacks. `fresh`:
  // reported since the last freeze, so the frozen tree lacks it.
  using Bits = ZeroArray<std::uint64_t>;

  WeightTree trees_[2];
  std::uint32_t frozen_ = 0;
  std::uint64_t words_;
  std::uint64_t settled_words_;  // `late` is empty up to here
  Bits late_;
  Bits fresh_;
};

}  // namespace batchflow::order
