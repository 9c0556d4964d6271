// What no policy can beat: each resource for itself, with perfect caches and sharing.
#pragma once

#include <algorithm>

#include "programs/input/scenario.h"

namespace batchflow::sim {

struct FluidBound {
  double gpu_s = 0;      // all GPUs compute all the time
  double storage_s = 0;  // every dataset that is used is read once
  double preparation_s =
      0;  // shared work is prepared once, and decoded once where it can be kept decoded
  double arrivals_s = 0;  // the job that ends last computes without a wait from when it may begin
  double samples = 0;     // that jobs train on
  double least_s() const { return std::max({gpu_s, storage_s, preparation_s, arrivals_s}); }
  double samples_per_s() const { return least_s() > 0 ? samples / least_s() : 0; }
};
FluidBound fluid_bound(const input::Scenario& scenario);

}  // namespace batchflow::sim
