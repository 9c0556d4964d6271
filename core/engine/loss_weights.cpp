#include "core/engine/loss_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/check.h"

namespace batchflow::engine {

LossWeights::LossWeights(std::string_view policy, const PolicyList& list, const order::Mixing& at)
    : choice_(list.choose(PolicyKind::mixture, policy)),
      policy_(choice_.make_mixture(at.sources().size())),
      heard_(at.sources().size()),
      asked_at_(at.drawn()) {}

void LossWeights::report(std::span<const float> losses) {
  BF_CHECK(losses.size() == heard_.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) continue;
    heard_[i].sum += losses[i];
    ++heard_[i].reports;
    has_reports_ = true;
  }
}

std::optional<std::vector<std::uint64_t>> LossWeights::decide(JobId job, const order::Mixing& at) {
  const std::uint64_t every = std::max<std::uint64_t>(policy_->every(), 1);
  if (!has_reports_ || at.drawn() - asked_at_ < every || at.changes_left() == 0)
    return std::nullopt;
  asked_at_ = at.drawn();
  has_reports_ = false;
  // The changes that are to come are decided already.
  const std::vector<std::uint64_t> now = at.last_parts();
  std::vector<SourceView> views(heard_.size());
  std::vector<double> weights(heard_.size());
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    Heard& heard = heard_[i];
    const std::uint32_t reports = std::exchange(heard.reports, 0);
    if (reports > 0) {
      heard.mean = std::exchange(heard.sum, 0) / reports;
      heard.is_known = true;
    }
    weights[i] = static_cast<double>(now[i]) / static_cast<double>(order::Mixture::kWhole);
    views[i] = {at.sources()[i].samples, at.taken(i), weights[i],
                heard.is_known,          heard.mean,  reports};
  }
  policy_->weigh({job, at.drawn(), views}, weights);
  const bool are_numbers = std::all_of(weights.begin(), weights.end(), [](double weight) {
    return std::isfinite(weight) && weight >= 0;
  });
  const bool any =
      std::any_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
  if (!are_numbers || !any) {
    ++refused_;  // and the weights stay as they are
    return std::nullopt;
  }
  std::vector<std::uint64_t> parts = order::Mixture::parts_of(weights);
  if (parts == now) return std::nullopt;
  return parts;
}

}  // namespace batchflow::engine
