// Random replacement: each class has an equal part of the buffer, and some samples of each batch
// replace exemplars of their class at random.
//
// "Naive incremental learning" as in T. Bouvier, B. Nicolae et al., "Efficient Data-Parallel
// Continual Learning with Asynchronous Distributed Rehearsal Buffers", CCGrid 2024: 14 of each
// batch of 56. Departs from it: samples are taken each with that chance, classes need not be known
// before, and a sample that is there already is not taken again.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"part", Parameter::Type::number, "0.25", "the part of the samples that is taken", 0, 1},
};
constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;

class RandomReplacement final : public engine::RehearsalPolicy {
 public:
  explicit RandomReplacement(const engine::RehearsalContext& context)
      : capacity_(context.capacity),
        taken_(static_cast<std::uint64_t>(context.parameters.number("part") * kWhole)) {}

  std::size_t choose(const engine::RehearsalView& sample, Random random) override {
    if (random.below(kWhole) >= taken_) return engine::kNoChoice;
    if (labels_.size() < capacity_) return labels_.size();
    const std::uint32_t own = sample.exemplar.label;
    const auto found = counts_.find(own);
    const std::size_t has = found == counts_.end() ? 0 : found->second;
    const auto [most, label] = *sizes_.rbegin();
    return one_of(has + 1 < most || has == 0 ? label : own, random);
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    const std::uint32_t label = exemplar.exemplar.label;
    if (index == labels_.size()) {
      labels_.push_back(label);
    } else {
      count(labels_[index], -1);
      labels_[index] = label;
    }
    count(label, 1);
  }

 private:
  void count(std::uint32_t label, int more) {
    std::size_t& has = counts_[label];
    sizes_.erase({has, label});
    has = more > 0 ? has + 1 : has - 1;
    if (has > 0) sizes_.insert({has, label});
  }

  // Tried at random, so that what is found does not depend on the order in which exemplars came.
  // The class has about its part of them, so a few tries for each class find one.
  std::size_t one_of(std::uint32_t label, Random& random) const {
    const std::size_t size = labels_.size();
    for (std::size_t tries = 0; tries < 16 * (sizes_.size() + 1); ++tries) {
      const auto index = static_cast<std::size_t>(random.below(size));
      if (labels_[index] == label) return index;
    }
    const auto from = labels_.begin() + static_cast<std::ptrdiff_t>(random.below(size));
    auto one = std::find(from, labels_.end(), label);
    if (one == labels_.end()) one = std::find(labels_.begin(), from, label);
    return static_cast<std::size_t>(one - labels_.begin());
  }

  std::size_t capacity_;
  std::uint64_t taken_;
  std::vector<std::uint32_t> labels_;                      // by index
  std::map<std::uint32_t, std::size_t> counts_;            // by label
  std::set<std::pair<std::size_t, std::uint32_t>> sizes_;  // of classes, with their labels
};

}  // namespace

extern const engine::PolicyEntry rehearsal_random_replacement;
constexpr engine::PolicyEntry rehearsal_random_replacement{
    .name = "random-replacement",
    .help =
        "A part of all samples, each in place of one of its class.\n"
        "Which exemplar of the class leaves is drawn.\n"
        "Classes have equal parts of the buffer; without classes all exemplars are of\n"
        "one. Newer samples are more likely to be there than old ones\n"
        "(Bouvier, Nicolae et al., CCGrid 2024).",
    .make = &make_rehearsal<RandomReplacement>,
    .parameters = kParameters};

}  // namespace batchflow::policies
