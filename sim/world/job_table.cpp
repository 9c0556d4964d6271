#include "sim/world/job_table.h"

namespace batchflow::world {

JobTable::JobTable(const input::Scenario& scenario, const Workload& workload, JobIds& ids)
    : ids_(ids), jobs_(scenario.jobs.size()), results_(scenario.jobs.size()) {
  for (std::uint32_t i = 0; i < size(); ++i) {
    Job& job = jobs_[i];
    job.id = JobId(i);
    job.model = &scenario.jobs[i];
    job.preparation = &workload.preparation(*job.model);
    job.batch = scenario.item_batch(*job.model);
    job.result = &results_[i];
    job.result->name = job.model->name;
    job.result->user = job.model->user;
    job.result->dataset = scenario.datasets[static_cast<std::size_t>(job.model->dataset)].name;
    job.result->ranks = job.model->ranks;
    if (job.is_validation())
      jobs_[static_cast<std::size_t>(job.model->validates_for)].validation = i;
  }
}

}  // namespace batchflow::world
