#include "sim/world/job_validations.h"

#include <utility>

#include "sim/world/kernel.h"

namespace batchflow::world {

bool JobValidations::begin(std::uint32_t index) {
  Job& job = jobs_[index];
  Job& own = jobs_[job.validation];
  if (own.state == Job::State::over || job.epochs_trained % own.model->validates_every != 0)
    return false;
  job.validates = true;
  ++job.holds;
  const Instant now = world_.kernel.now();
  if (own.state == Job::State::away) {
    schedule_.assign(own, job.gpus, job.gpu_numbers);
    own.started = now;
    own.result->arrived_s = seconds(own.started);
    own.ranks.assign(own.nodes.size(), {});
    for (RankState& rank : own.ranks) rank.since = now;
    return true;
  }
  for (RankState& rank : own.ranks) {
    own.idle += own.of_gpus(now - rank.since);  // the trained job's time, in sums
    rank.since = now;
  }
  training_.go_on(job.validation);
  return false;
}

void JobValidations::end(std::uint32_t validation) {
  const auto trains = static_cast<std::uint32_t>(jobs_[validation].model->validates_for);
  if (std::exchange(jobs_[trains].validates, false)) training_.end_hold(trains);
}

}  // namespace batchflow::world
