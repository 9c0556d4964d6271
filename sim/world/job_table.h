// All jobs of a run, by their index in the scenario, and the results that they fill.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "programs/output/results.h"
#include "sim/world/job.h"
#include "sim/world/job_ids.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class JobTable {
 public:
  // All outlive it.
  JobTable(const input::Scenario& scenario, const Workload& workload, JobIds& ids);
  JobTable(const JobTable&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(jobs_.size()); }
  Job& operator[](std::uint32_t index) { return jobs_[index]; }
  const Job& operator[](std::uint32_t index) const { return jobs_[index]; }
  // By an id of the job; `Job::id` is its last.
  Job& at(JobId id) { return jobs_[ids_.index_of(id)]; }
  const Job& at(JobId id) const { return jobs_[ids_.index_of(id)]; }
  std::uint32_t index_of(const Job& job) const {
    return static_cast<std::uint32_t>(&job - jobs_.data());
  }
  auto begin() { return jobs_.begin(); }
  auto end() { return jobs_.end(); }

  // The engine takes an id once: a job that joins anew has another.
  void give_another_id(Job& job) { job.id = ids_.another(index_of(job)); }
  // They are taken, not copied, because there may be a million; the jobs end with this.
  std::vector<output::JobResult> take_results() { return std::move(results_); }

 private:
  JobIds& ids_;
  std::vector<Job> jobs_;
  std::vector<output::JobResult> results_;
};

}  // namespace batchflow::world
