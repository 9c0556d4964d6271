// When the records of a source are made, one after the other, by the process that its scenario
// names. The times depend on the seed and the source alone, not on what becomes of the records.
#pragma once

#include <cstddef>
#include <optional>

#include "core/base/random.h"
#include "core/base/types.h"
#include "programs/input/live_model.h"

namespace batchflow::world {

class Arrivals {
 public:
  // `model` outlives it.
  Arrivals(const input::ArrivalModel& model, Random random);

  // None: no other comes.
  std::optional<Instant> next();

 private:
  void go_on_to_next_rate();

  const input::ArrivalModel& model_;
  Random random_;
  double now_s_ = 0;
  double per_s_ = 0;    // now
  double until_s_ = 0;  // at which the rate is another one
  bool in_burst_ = false;
  std::size_t rate_ = 0;  // of the recorded ones: the next
};

}  // namespace batchflow::world
