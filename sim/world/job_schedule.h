// Which jobs have GPUs: the others wait in the order of the cluster's scheduler.
//
// Where the scheduler preempts, jobs that have had much GPU time leave their GPUs to a job that has
// not.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "sim/world/gpu_queue.h"
#include "sim/world/job.h"
#include "sim/world/job_queue.h"
#include "sim/world/job_table.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class JobSchedule {
 public:
  class Listener {
   public:
    virtual void has_gpus(std::uint32_t job) = 0;
    // It is to give its GPUs back within this call, and waits for others.
    virtual void preempt(std::uint32_t job) = 0;

   protected:
    ~Listener() = default;
  };
  JobSchedule(const Parts& parts, JobTable& jobs, Listener& listener);

  // The job waits for GPUs from now on.
  void wait(std::uint32_t index);
  // The same, before all others.
  void wait_first(std::uint32_t index) { queue_.add_first(index); }
  // Gives GPUs to the jobs that wait, as far as there are free ones.
  void give_gpus();
  void give_back(const Job& job);
  void node_down(NodeId node) { gpus_.node_down(node); }
  void node_up(NodeId node) { gpus_.node_up(node); }
  // These GPUs are the job's: says on which nodes it has ranks.
  void assign(Job& job, std::vector<NodeId> gpus, std::vector<std::uint32_t> numbers) const;

  const std::set<std::uint32_t>& with_gpus() const { return with_gpus_; }
  // The GPU time that a job with GPUs has had.
  TotalTime attained(const Job& job) const;

 private:
  bool preempts() const { return world_.scenario.scheduler == input::Scheduler::las; }
  void watch_for_much(std::uint32_t index);
  bool make_room_for(std::uint32_t index);

  const Parts world_;
  JobTable& jobs_;
  Listener& listener_;
  GpuQueue gpus_;
  JobQueue queue_;
  std::set<std::uint32_t> with_gpus_;
};

}  // namespace batchflow::world
