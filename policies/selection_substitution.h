// Substitution: a block is made of samples that are kept, in place of those that would be next.
//
// Any sample of an epoch is as good as another to a job that shuffles, as long as each comes once.
// So a block takes from the next candidates those that a cache has, and leaves the others for
// later, when they may be there, too. The published systems differ in how far they look, what they
// prefer, and how much they leave to chance.
#pragma once

#include <span>
#include <vector>

#include "core/engine/policy.h"
#include "policies/selection_in_turn.h"

namespace batchflow::policies {

constexpr Parameter candidates_parameter(std::string_view blocks) {
  return {"blocks", Parameter::Type::integer,
          blocks,   "how many blocks' samples are searched for samples that are kept",
          1,        256};
}

// The candidates of the lowest rank, oldest first, fill the picks that are left.
class Substitution : public InTurn {
 public:
  explicit Substitution(const engine::PolicyContext& context)
      : blocks_(static_cast<std::uint32_t>(context.parameters.integer("blocks"))) {}

  std::uint32_t blocks_to_choose_from() const override { return blocks_; }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    std::size_t chosen = 0;
    taken_.assign(view.candidates.size(), false);
    const auto take = [&](std::uint32_t at) {
      taken_[at] = true;
      picks[chosen++] = at;
    };
    const std::size_t by_chance = left_to_chance(picks.size());
    for (std::uint32_t at = 0; chosen < by_chance; ++at) take(at);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (std::uint32_t at = 0; at < view.candidates.size() && chosen < picks.size(); ++at) {
        if (!taken_[at] && rank_of(view.candidates[at]) == rank) take(at);
      }
    }
  }

 protected:
  static constexpr int kRanks = 3;
  // From 0, the best, up to kRanks - 1.
  virtual int rank_of(const engine::SampleCandidate& candidate) const {
    return candidate.decoded || candidate.encoded ? 0 : kRanks - 1;
  }
  virtual std::size_t left_to_chance(std::size_t /*samples*/) const { return 0; }

 private:
  std::uint32_t blocks_;
  std::vector<bool> taken_;  // scratch
};

}  // namespace batchflow::policies
