// The statistics of a whole job trace: how many jobs of which size come when, for how long, from
// which users.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/job_trace.h"

namespace batchflow::traces {

// The quantiles of a sorted sample; all are 0 when it is empty.
struct Quantiles {
  std::uint64_t count = 0;
  double least = 0, p10 = 0, p25 = 0, p50 = 0, p75 = 0, p90 = 0, p99 = 0, most = 0, mean = 0;
};
Quantiles quantiles_of(std::vector<double> values);

struct GpuClass {
  double least = 0, most = 0;  // GPUs
  std::uint64_t jobs = 0;
  double gpu_hours = 0;  // of the jobs with a known duration
};

struct JobStatistics {
  std::uint64_t jobs = 0;
  std::uint64_t gpu_jobs = 0;
  std::uint64_t fractional_jobs = 0;  // that ask for a part of a GPU
  std::uint64_t jobs_with_start = 0;
  std::uint64_t jobs_with_duration = 0;
  std::uint64_t jobs_tried_again = 0;
  std::uint64_t users = 0;  // distinct users that are named
  std::uint64_t queues = 0;
  double jobs_of_busiest_user_share = 0;
  std::uint64_t distinct_ids = 0;
  TraceTime first_submit_ns = kNoTime, last_submit_ns = kNoTime, last_end_ns = kNoTime;
  double gpu_hours = 0;
  // By the recorded starts, or by the submission where no start is recorded.
  double gpus_at_once_most = 0;
  Quantiles gpus;            // of jobs with GPUs
  Quantiles duration_s;      // of jobs with GPUs
  Quantiles wait_s;          // from submission to start
  Quantiles interarrival_s;  // of all jobs
  std::array<std::uint64_t, kJobStatuses> statuses{};
  std::vector<GpuClass> gpu_classes;  // none, a part, 1, 2, 3-4, 5-8, 9-16, ...; no class is empty
};

JobStatistics job_statistics(const JobTrace& trace);

}  // namespace batchflow::traces
