// Prioritised: the last samples, drawn the more often the higher their scores are.
//
// T. Schaul et al., "Prioritized Experience Replay", ICLR 2016, in its proportional form: P(i) ~
// (score + epsilon)^alpha, and a new sample has the greatest weight that there was. Departs from
// it: weights are those of the beginning of an epoch, and draws are systematic.
#include <algorithm>
#include <cmath>

#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/rehearsal_leaving.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"alpha", Parameter::Type::number, "0.6", "how much scores decide: 0 draws all alike", 0, 4},
    {"epsilon", Parameter::Type::number, "0.01", "is added to scores, so that all are drawn", 1e-4,
     1e3},
};

class Prioritised final : public engine::RehearsalPolicy {
 public:
  explicit Prioritised(const engine::RehearsalContext& context)
      : capacity_(context.capacity),
        alpha_(context.parameters.number("alpha")),
        epsilon_(context.parameters.number("epsilon")) {}

  std::size_t choose(const engine::RehearsalView& /*sample*/, Random /*random*/) override {
    return leaving_.size() < capacity_ ? leaving_.size() : leaving_.first();
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    // The oldest leaves first.
    leaving_.put(index, UINT64_MAX - exemplar.exemplar.since);
    if (exemplar.exemplar.is_scored) greatest_ = std::max(greatest_, exemplar.exemplar.score);
  }
  bool weighs() const override { return true; }
  float weight(const engine::Exemplar& exemplar) const override {
    const float score = exemplar.is_scored ? std::max(exemplar.score, 0.0F) : greatest_;
    return static_cast<float>(std::pow(score + epsilon_, alpha_));
  }

 private:
  std::size_t capacity_;
  double alpha_;
  double epsilon_;
  float greatest_ = 1;  // score so far
  Leaving<std::uint64_t> leaving_;
};

}  // namespace

extern const engine::PolicyEntry rehearsal_prioritised;
constexpr engine::PolicyEntry rehearsal_prioritised{
    .name = "prioritised",
    .help =
        "The last samples, drawn more often where scores are higher.\n"
        "For reinforcement learning (Schaul et al., ICLR 2016): the oldest leaves\n"
        "first; the part of the draws goes by (score + epsilon)^alpha, without a\n"
        "score by the greatest. Weights are those of the beginning of an epoch.",
    .make = &make_rehearsal<Prioritised>,
    .parameters = kParameters};

}  // namespace batchflow::policies
