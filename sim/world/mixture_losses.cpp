#include "sim/world/mixture_losses.h"

#include <algorithm>

#include "core/order/mixture.h"

namespace batchflow::world {

void MixtureLosses::trained_on(const input::MixtureModel& mixture, const Workload::Data& data,
                               std::span<const SampleId> items) {
  samples_.resize(mixture.sources);
  const std::uint64_t all = data.catalogue->samples();
  for (const SampleId item : items) {
    // Source i begins with item all * i / sources, rounded down.
    std::uint64_t source = item.value * mixture.sources / all;
    while (all * (source + 1) / mixture.sources <= item.value) ++source;
    samples_[source] += data.samples_per_item;
  }
}

void MixtureLosses::set(std::span<const std::uint64_t> parts) {
  weights_.clear();
  for (const std::uint64_t part : parts)
    weights_.push_back(static_cast<double>(part) / static_cast<double>(order::Mixture::kWhole));
  ++changes_;
}

std::vector<float> MixtureLosses::losses(const input::MixtureModel& mixture) const {
  std::vector<float> made;
  for (std::uint32_t i = 0; i < mixture.sources; ++i) {
    const double samples = samples_.empty() ? 0 : static_cast<double>(samples_[i]);
    made.push_back(static_cast<float>(mixture.loss(i, samples)));
  }
  return made;
}

output::MixtureResult MixtureLosses::result(const input::MixtureModel& mixture) const {
  output::MixtureResult out;
  if (mixture.policy.empty()) return out;
  std::vector<double> weights = weights_;
  if (weights.empty()) {
    for (const std::uint64_t part : order::Mixture::parts_of(mixture.weights(0)))
      weights.push_back(static_cast<double>(part) / static_cast<double>(order::Mixture::kWhole));
  }
  out.changes = changes_;
  out.weight_least = *std::min_element(weights.begin(), weights.end());
  out.weight_most = *std::max_element(weights.begin(), weights.end());
  for (const float loss : losses(mixture)) {
    out.loss_mean += static_cast<double>(loss) / mixture.sources;
    out.loss_most = std::max<double>(out.loss_most, loss);
  }
  return out;
}

}  // namespace batchflow::world
