#include "programs/output/job_figures.h"

#include <algorithm>

namespace batchflow::output {

double mean_au(std::span<const JobResult> jobs) {
  double compute_s = 0;
  double time_s = 0;
  for (const JobResult& job : jobs) {
    const double after_first_s = job.time_s - job.first_step_s;
    const double looked_at_s = after_first_s > 0 ? after_first_s : job.time_s;
    compute_s += job.au * looked_at_s * static_cast<double>(job.ranks);
    time_s += looked_at_s * static_cast<double>(job.ranks);
  }
  return time_s > 0 ? compute_s / time_s : 0;
}

double hit_ratio(std::uint64_t read, std::uint64_t requested) {
  if (requested == 0) return 0;
  return std::max(0., 1 - static_cast<double>(read) / static_cast<double>(requested));
}

}  // namespace batchflow::output
