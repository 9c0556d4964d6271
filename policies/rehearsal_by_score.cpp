// By score: the samples with the highest scores that their jobs have reported, as losses.
#include <limits>

#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/rehearsal_leaving.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"highest", Parameter::Type::flag, "true", "true keeps the highest scores, false the lowest"},
};

class ByScore final : public engine::RehearsalPolicy {
 public:
  explicit ByScore(const engine::RehearsalContext& context)
      : capacity_(context.capacity), highest_(context.parameters.flag("highest")) {}

  std::size_t choose(const engine::RehearsalView& sample, Random /*random*/) override {
    if (leaving_.size() < capacity_) return leaving_.size();
    return rank(sample) < leaving_.first_rank() ? leaving_.first() : engine::kNoChoice;
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    leaving_.put(index, rank(exemplar));
  }

 private:
  using Rank = std::pair<float, std::uint64_t>;

  // Samples without a score leave first. Of equal scores, a uniform choice stays.
  Rank rank(const engine::RehearsalView& sample) const {
    if (!sample.exemplar.is_scored) return {std::numeric_limits<float>::infinity(), sample.number};
    return {highest_ ? -sample.exemplar.score : sample.exemplar.score, sample.number};
  }

  std::size_t capacity_;
  bool highest_;
  Leaving<Rank> leaving_;
};

}  // namespace

extern const engine::PolicyEntry rehearsal_by_score;
constexpr engine::PolicyEntry rehearsal_by_score{
    .name = "by-score",
    .help =
        "The samples with the highest scores, such as losses.\n"
        "A sample that no job has given a score leaves first. Of equal scores, a\n"
        "uniform choice stays.",
    .make = &make_rehearsal<ByScore>,
    .parameters = kParameters};

}  // namespace batchflow::policies
