// What a simulated job loses on each source of its mixture, by the model of its scenario; and what
// a policy makes of the weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"
#include "programs/input/workload_model.h"
#include "programs/output/results.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class MixtureLosses {
 public:
  // The job has trained on these items of its dataset.
  void trained_on(const input::MixtureModel& mixture, const Workload::Data& data,
                  std::span<const SampleId> items);
  // The sources have these parts, which the policy said.
  void set(std::span<const std::uint64_t> parts);

  // Of each source.
  std::vector<float> losses(const input::MixtureModel& mixture) const;
  // Nothing where no policy changes weights.
  output::MixtureResult result(const input::MixtureModel& mixture) const;

 private:
  std::vector<std::uint64_t> samples_;  // of each source, trained on
  std::vector<double> weights_;         // as parts of the mixture; empty: as at first
  std::uint64_t changes_ = 0;
};

}  // namespace batchflow::world
