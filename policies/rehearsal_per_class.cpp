// Per class: each class has the same number of exemplars.
//
// S.-A. Rebuffi et al., "iCaRL: Incremental Classifier and Representation Learning", CVPR 2017.
// There, exemplars are chosen when a task is over, one after the other, so that their mean comes
// near the mean of the class in the space of features. Here samples come one by one, so each time
// that a class has one too many, the one leaves without which the others' mean is nearest. Where
// no features are reported, a class keeps a uniform choice of its samples.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"samples", Parameter::Type::integer, "0",
     "the most of each class; 0: as many as the buffer has room for", 0, 65536},
};
// The mean of a class is over about as many of its last samples: the network changes meanwhile.
constexpr double kMeanOver = 1024;

using Vector = std::vector<float>;

struct Member {
  SampleId sample = SampleId::none();
  std::uint32_t label = engine::kNoClass;
  std::uint64_t number = 0;
  Vector features;
};

struct Class {
  std::set<std::pair<std::uint64_t, std::size_t>> members;  // numbers, with their indices
  std::vector<double> mean;                                 // of features; empty: not known
  double seen = 0;
};

double squared_distance(std::span<const double> sum, std::span<const float> without, double count,
                        std::span<const double> mean) {
  double distance = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double off = (sum[i] - without[i]) / count - mean[i];
    distance += off * off;
  }
  return distance;
}

class PerClass final : public engine::RehearsalPolicy {
 public:
  explicit PerClass(const engine::RehearsalContext& context)
      : capacity_(context.capacity),
        most_(static_cast<std::size_t>(context.parameters.integer("samples"))) {}

  std::size_t choose(const engine::RehearsalView& sample, Random /*random*/) override {
    Class& own = classes_[sample.exemplar.label];
    learn(own, sample.features);
    const std::size_t has = own.members.size();
    if (most_ > 0 && has >= most_) return leaves(own, &sample);
    if (members_.size() < capacity_) return members_.size();
    const auto [largest, label] = *sizes_.rbegin();
    // Classes differ by one exemplar at most once all could have had their part.
    return has + 1 < largest ? leaves(classes_.at(label), nullptr) : leaves(own, &sample);
  }

  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    if (index == members_.size()) members_.emplace_back();
    Member& member = members_[index];
    const bool is_same = member.sample == exemplar.exemplar.sample &&
                         member.label == exemplar.exemplar.label && !member.sample.is_none();
    if (!is_same) {
      if (!member.sample.is_none()) {
        resize(member.label, [&](Class& from) { from.members.erase({member.number, index}); });
      }
      member = {exemplar.exemplar.sample, exemplar.exemplar.label, exemplar.number, {}};
      resize(member.label, [&](Class& to) { to.members.insert({member.number, index}); });
    }
    if (!exemplar.features.empty())
      member.features.assign(exemplar.features.begin(), exemplar.features.end());
  }

 private:
  template <class Change>
  void resize(std::uint32_t label, Change how) {
    Class& one = classes_[label];
    sizes_.erase({one.members.size(), label});
    how(one);
    if (!one.members.empty()) sizes_.insert({one.members.size(), label});
  }

  static void learn(Class& one, std::span<const float> features) {
    if (features.empty()) return;
    if (one.mean.size() != features.size()) {
      one.mean.assign(features.size(), 0);
      one.seen = 0;
    }
    one.seen = std::min(one.seen + 1, kMeanOver);
    for (std::size_t i = 0; i < features.size(); ++i)
      one.mean[i] += (features[i] - one.mean[i]) / one.seen;
  }

  // The exemplar of the class that leaves, for `newcomer` of the same class if there is one.
  // kNoChoice: the newcomer does.
  std::size_t leaves(const Class& one, const engine::RehearsalView* newcomer) const {
    if (one.members.empty()) return engine::kNoChoice;
    if (const auto by_mean = leaves_by_mean(one, newcomer)) return *by_mean;
    const auto& [greatest, index] = *one.members.rbegin();
    return newcomer && newcomer->number >= greatest ? engine::kNoChoice : index;
  }

  // Nothing: too few of them have features.
  std::optional<std::size_t> leaves_by_mean(const Class& one,
                                            const engine::RehearsalView* newcomer) const {
    const std::size_t size = one.mean.size();
    if (size == 0 || (newcomer && newcomer->features.size() != size)) return std::nullopt;
    // Each sample that is shown looks at all of them, between two batches.
    constexpr std::size_t kNumbersMost = 1 << 18;
    if (one.members.size() * size > kNumbersMost) return std::nullopt;
    std::vector<double> sum(size);
    std::size_t count = 0;
    const auto add = [&](std::span<const float> features) {
      for (std::size_t i = 0; i < size; ++i) sum[i] += features[i];
      ++count;
    };
    for (const auto& [number, index] : one.members) {
      if (members_[index].features.size() == size) add(members_[index].features);
    }
    if (newcomer) add(newcomer->features);
    if (count < 2) return std::nullopt;
    std::size_t best = engine::kNoChoice;
    const auto rest = static_cast<double>(count - 1);
    double least = newcomer ? squared_distance(sum, newcomer->features, rest, one.mean) : HUGE_VAL;
    for (const auto& [number, index] : one.members) {
      if (members_[index].features.size() != size) continue;
      const double distance = squared_distance(sum, members_[index].features, rest, one.mean);
      if (distance >= least) continue;
      least = distance;
      best = index;
    }
    return best;
  }

  std::size_t capacity_;
  std::size_t most_;
  std::vector<Member> members_;
  std::map<std::uint32_t, Class> classes_;                 // by label
  std::set<std::pair<std::size_t, std::uint32_t>> sizes_;  // of classes, with their labels
};

}  // namespace

extern const engine::PolicyEntry rehearsal_per_class;
constexpr engine::PolicyEntry rehearsal_per_class{
    .name = "per-class",
    .help =
        "The same number of exemplars of each class.\n"
        "Of a class, a uniform choice; where a job reports features, those of which\n"
        "the mean is near that of the class (herding: iCaRL, CVPR 2017). A new class\n"
        "takes its part from the largest ones. Exemplars of a class with more than\n"
        "262,144 numbers of features together are a uniform choice, too.\n"
        "Departs from it: exemplars are chosen as samples come, not when a task is\n"
        "over.",
    .make = &make_rehearsal<PerClass>,
    .parameters = kParameters};

}  // namespace batchflow::policies
