// The statistics that made jobs follow: when jobs come, how many GPUs they ask for, how long they
// run, which users they belong to, and how they end.
//
// What is matched: arrivals by weekday and by hour of the day; the share of each number of GPUs;
// durations, for classes of GPUs, as a mixture of two lognormal distributions; the number of users
// and how unequal they are (Zipf); the shares of statuses. What is not matched: bursts of
// submissions, and that jobs of one user, or the status and the duration of a job, resemble each
// other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/job_trace.h"

namespace batchflow::traces {

struct Lognormal {
  double weight = 0;
  double mean_log = 0;  // of the logarithm of seconds
  double sd_log = 0;
};

struct SynthModel {
  static constexpr std::size_t kDurationClasses = 5;  // no GPU, up to 1, 2-4, 5-8, more
  struct Size {
    std::uint32_t gpus_hundredths;
    double weight;
  };

  std::array<double, 7> weekdays{};  // weights; the first is Monday
  std::array<double, 24> hours{};
  std::vector<Size> sizes;
  std::array<std::array<Lognormal, 2>, kDurationClasses> durations{};
  double longest_s = 0;
  std::uint32_t users = 1;
  double user_exponent = 0;  // the k-th user has weight k^-exponent
  std::uint32_t queues = 1;
  std::array<double, kJobStatuses> statuses{};

  static std::size_t duration_class(std::uint32_t gpus_hundredths);
};

// Near what is published of Microsoft's Philly: most jobs have one GPU, a few long jobs take most
// of the time, and there are some hundred users.
SynthModel usual_job_model();

// Fits the statistics of a trace; what the trace lacks (users, statuses) stays usual. Throws
// ConfigError when none of its jobs has a duration.
SynthModel fit_job_model(const JobTrace& trace);

}  // namespace batchflow::traces
