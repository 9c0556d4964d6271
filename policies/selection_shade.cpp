// SHADE's draws: the ranks of a batch's scores count, not their values.
//
// R. I. S. Khan et al., "SHADE: Enable Fundamental Cacheability for Distributed Deep Learning
// Training", FAST 2023. The weight of a sample is the logarithm of its rank among the losses of its
// batch, plus ten: what a batch was hardest on is drawn a little more often. Departs from it: ranks
// are those among the scores that are reported at once, 128 at most.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/real_functions.h"
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_in_turn.h"

namespace batchflow::policies {
namespace {

class Shade final : public InTurn {
 public:
  explicit Shade(const engine::PolicyContext&) {}

  void weigh(JobId, std::span<const float> scores, std::span<float> weights) override {
    by_score_.resize(scores.size());
    std::iota(by_score_.begin(), by_score_.end(), std::size_t{0});
    const auto number = [](float score) { return score == score ? score : 0; };
    std::sort(by_score_.begin(), by_score_.end(), [&](std::size_t a, std::size_t b) {
      const float one = number(scores[a]);
      const float other = number(scores[b]);
      return one != other ? one < other : a < b;
    });
    for (std::size_t rank = 0; rank < by_score_.size(); ++rank) {
      weights[by_score_[rank]] = static_cast<float>(log_of(static_cast<double>(rank + 1) + kAdded));
    }
  }

 private:
  static constexpr double kAdded = 10;
  std::vector<std::size_t> by_score_;  // scratch
};

}  // namespace

extern const engine::PolicyEntry selection_shade;
constexpr engine::PolicyEntry selection_shade{
    "shade",
    "Weighted orders draw by ranks of scores within a batch.\n"
    "A sample weighs the logarithm of its rank plus ten (SHADE, FAST 2023).\n"
    "Jobs of other orders take their blocks in turn.\n"
    "Departs from it: ranks are among the scores that come at once, 128 at\n"
    "most.",
    &make_policy<engine::SelectionPolicy, Shade>};

}  // namespace batchflow::policies
