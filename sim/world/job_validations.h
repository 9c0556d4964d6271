// Validations: jobs that have the GPUs of another job while that job stands still after an epoch.
//
// Each has a sequence of its own. Like a loader that stays, it may already have the first batches
// of its next epoch when it goes on.
#pragma once

#include <cstdint>

#include "sim/world/job_schedule.h"
#include "sim/world/job_table.h"
#include "sim/world/job_training.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class JobValidations {
 public:
  JobValidations(const Parts& parts, JobTable& jobs, const JobSchedule& schedule,
                 JobTraining& training)
      : world_(parts), jobs_(jobs), schedule_(schedule), training_(training) {}

  // The job has ended an epoch. True: its validation has its GPUs for the first time, and joins.
  bool begin(std::uint32_t index);
  // The validation has ended an epoch, or is over: the job that it validates goes on.
  void end(std::uint32_t validation);

 private:
  const Parts world_;
  JobTable& jobs_;
  const JobSchedule& schedule_;
  JobTraining& training_;
};

}  // namespace batchflow::world
