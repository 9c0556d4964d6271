// What mixture policies have in common: when they are asked again, and how far weights move.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/real_functions.h"
#include "core/engine/policy.h"

namespace batchflow::policies {

inline constexpr Parameter kMixtureEvery = {
    "every", Parameter::Type::integer,
    "10000", "samples of the job after which the weights may change again",
    1,       1e12};
inline constexpr Parameter kMixtureLeast = {
    "least", Parameter::Type::number,
    "0.01",  "the least part of the mixture for a source; if too much for all, all get the same",
    0,       1};
inline constexpr Parameter kMixtureChange = {
    "change", Parameter::Type::number, "0.1", "the most by which a weight changes at once", 0, 1};

// A policy says what each source should weigh, by its loss; here it is bounded. A source that
// weighs nothing stays out.
class BoundedMixture : public engine::MixturePolicy {
 public:
  explicit BoundedMixture(const engine::MixtureContext& context)
      : every_(static_cast<std::uint64_t>(context.parameters.integer("every"))),
        least_(context.parameters.number("least")),
        change_(context.parameters.number("change")) {}

  std::uint64_t every() const final { return every_; }

  void weigh(const engine::MixtureView& view, std::span<double> weights) final {
    const std::optional<double> unknown = mean_loss(view);
    if (!unknown) return;
    std::vector<double> wanted(weights.size());
    std::vector<double> losses;
    for (const engine::SourceView& source : view.sources)
      losses.push_back(source.is_known ? source.loss : *unknown);
    want(view, losses, wanted);
    approach(wanted, weights);
  }

 protected:
  // Fills `wanted`, with numbers from 0 on. `losses`: of a source of which none was reported, the
  // mean of the others. What is wanted of sources that weigh nothing does not count.
  virtual void want(const engine::MixtureView& view, std::span<const double> losses,
                    std::span<double> wanted) = 0;

  // e to the power of each exponent, over that of the greatest: nothing overflows. Sources that
  // weigh nothing have no part in it.
  static void raise(const engine::MixtureView& view, std::span<double> exponents) {
    double most = -HUGE_VAL;
    for (std::size_t i = 0; i < exponents.size(); ++i) {
      if (view.sources[i].weight > 0) most = std::max(most, exponents[i]);
    }
    for (double& one : exponents) one = exp_of(std::min(one - most, 0.0));
  }

 private:
  static std::optional<double> mean_loss(const engine::MixtureView& view) {
    double sum = 0;
    double known = 0;
    for (const engine::SourceView& source : view.sources) {
      if (!source.is_known || source.weight == 0) continue;
      sum += source.loss;
      ++known;
    }
    if (known == 0 || !std::isfinite(sum)) return std::nullopt;
    return sum / known;
  }

  // Goes from the weights of now towards those that are wanted, as far as no weight changes by more
  // than it may. All on the way sum to 1; so a source that has the least keeps it.
  void approach(std::span<const double> wanted, std::span<double> weights) const {
    double sum = 0;
    double sources = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      sum += wanted[i];
      ++sources;
    }
    if (!(sum > 0) || !std::isfinite(sum)) return;
    const double least = std::min(least_, 1 / sources);
    double farthest = 0;
    std::vector<double> steps(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      steps[i] = least + (1 - sources * least) * wanted[i] / sum - weights[i];
      farthest = std::max(farthest, std::abs(steps[i]));
    }
    const double part = farthest > change_ ? change_ / farthest : 1;
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = std::max(0.0, weights[i] + part * steps[i]);
  }

  std::uint64_t every_;
  double least_;
  double change_;
};

}  // namespace batchflow::policies
