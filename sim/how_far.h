// How far a simulation is, as those who wait for it are told.
#pragma once

#include <cstdint>

namespace batchflow::sim {

struct HowFar {
  double done = 0;         // of all that is to be done
  double simulated_s = 0;  // the time there
  std::uint64_t jobs = 0;  // that are over
};

}  // namespace batchflow::sim
