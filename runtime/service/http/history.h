// What a service has done in the last minutes, for the graphs of its page: counters, noted every
// two seconds. A bounded number of them is kept, so that a page that is just opened has a history,
// too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/stalls.h"

namespace batchflow::service {

// The counters of all jobs there ever were, at one moment. They only grow.
struct HistoryPoint {
  Instant at{};
  std::uint64_t samples = 0;  // delivered
  StageTimes stalls;
  Duration computed{0};
};

// Those of one job.
struct JobPoint {
  std::uint64_t samples = 0;
  Duration stalled{0};
  Duration computed{0};
};

// Those of all jobs that there are, by id.
struct JobPoints {
  Instant at{};
  std::map<std::uint32_t, JobPoint> jobs;
};

class History {
 public:
  static constexpr Duration kEach = std::chrono::seconds(2);
  static constexpr std::size_t kPoints = 150;
  // Figures of "now" are over so many points: a job with long steps would jump otherwise.
  static constexpr std::size_t kRecent = 5;

  bool is_due(Instant now) const { return points_.empty() || now - points_.back().at >= kEach; }
  // REQUIRES: both were taken at the same time, after those before
  void add(const HistoryPoint& point, JobPoints jobs);

  std::vector<HistoryPoint> points() const { return {points_.begin(), points_.end()}; }
  // The oldest of the last kRecent that were noted of jobs; empty: none was.
  JobPoints jobs_before() const { return jobs_.empty() ? JobPoints{} : jobs_.front(); }

 private:
  std::deque<HistoryPoint> points_;
  std::deque<JobPoints> jobs_;
};

// How fast the jobs were between two moments.
struct Pace {
  double samples_per_s = 0;
  std::vector<double> stalled;  // by stage: the share of the time of ranks
};
Pace pace_between(const HistoryPoint& before, const HistoryPoint& now);

}  // namespace batchflow::service
