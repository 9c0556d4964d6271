#include "sim/world/job_queue.h"

#include <algorithm>

namespace batchflow::world {

void JobQueue::add(std::uint32_t job, const input::JobModel& model, Duration work,
                   TotalTime attained) {
  std::int64_t rank = 0;
  switch (scheduler_) {
    case input::Scheduler::fifo:
      break;
    case input::Scheduler::recorded:
      rank = model.not_before.time_since_epoch().count();
      break;
    case input::Scheduler::sjf:
      rank = work.count();
      break;
    case input::Scheduler::las:
      rank = has_had_much(attained) ? 1 : 0;
      break;
  }
  waiting_.insert({rank, ++serials_, job});
}

}  // namespace batchflow::world
