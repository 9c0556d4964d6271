// Gives each varying thing its random numbers: they depend on the seed of the scenario, on the kind
// of the thing, and on its number. So a GPU's hundredth step takes equally long under every policy,
// and a comparison of policies compares them under the same chance.
#pragma once

#include "core/base/random.h"

namespace batchflow::world {

enum class Chance : std::uint8_t {
  job_step = 1,
  store_latency,
  nvme_latency,
  preparation,
  exemplars,
  importance,
  slow_sample,
  arrival,
  job_steps,  // of all ranks
  restore,
  record_made,
  record_lost,
  record_lag,
  record_class,
  list  // of an epoch
};

template <class... Words>
Random chance_of(std::uint64_t seed, Chance what, Words... which) {
  return Random(hash(seed, static_cast<std::uint64_t>(what), which...));
}

}  // namespace batchflow::world
