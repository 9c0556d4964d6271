// The progress of a simulation, as it is shown to people.
#pragma once

#include <cstdint>

namespace batchflow::sim {

struct RunProgress {
  double done = 0;         // share of the work that is done
  double simulated_s = 0;  // simulated time so far
  std::uint64_t jobs = 0;  // jobs that are over
};

}  // namespace batchflow::sim
