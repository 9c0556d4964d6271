#include "sim/world/arrivals.h"

#include <cmath>
#include <limits>

#include "programs/input/quantities.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

using Process = input::ArrivalModel::Process;
constexpr double kForEver = std::numeric_limits<double>::infinity();

double exponential(Random& random) {
  return -std::log(input::uniform(random));
}

}  // namespace

Arrivals::Arrivals(const input::ArrivalModel& model, Random random)
    : model_(model), random_(random) {
  go_on_to_next_rate();
}

void Arrivals::go_on_to_next_rate() {
  switch (model_.process) {
    case Process::poisson:
    case Process::even:
      per_s_ = model_.per_s;
      until_s_ = kForEver;
      return;
    case Process::bursts:
      in_burst_ = !in_burst_;
      per_s_ = in_burst_ ? model_.per_s : 0;
      until_s_ = now_s_ + seconds(in_burst_ ? model_.burst : model_.pause) * exponential(random_);
      return;
    case Process::recorded:
      per_s_ = model_.recorded[rate_].per_s;
      ++rate_;
      until_s_ = rate_ < model_.recorded.size() ? seconds(model_.recorded[rate_].from) : kForEver;
      return;
  }
}

// The time until the next record is a number of records that would have come on the average, at
// whatever rates there are until then: one where they are equally far apart, else exponential.
std::optional<Instant> Arrivals::next() {
  double left = model_.process == Process::even ? 1 : exponential(random_);
  while (per_s_ * (until_s_ - now_s_) < left || per_s_ == 0) {
    if (until_s_ == kForEver) return std::nullopt;
    left -= per_s_ * (until_s_ - now_s_);
    now_s_ = until_s_;
    go_on_to_next_rate();
  }
  now_s_ += left / per_s_;
  return instant_of(now_s_);
}

}  // namespace batchflow::world
