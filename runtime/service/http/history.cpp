#include "runtime/service/http/history.h"

#include <algorithm>
#include <utility>

namespace batchflow::service {
namespace {

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void History::add(const HistoryPoint& point, JobPoints jobs) {
  points_.push_back(point);
  if (points_.size() > kPoints) points_.pop_front();
  jobs_.push_back(std::move(jobs));
  if (jobs_.size() > kRecent) jobs_.pop_front();
}

Pace pace_between(const HistoryPoint& before, const HistoryPoint& now) {
  Pace pace;
  pace.stalled.resize(kStages);
  const double lasted_s = seconds_of(now.at - before.at);
  if (lasted_s <= 0) return pace;
  // A rank that leaves takes the wait along in which it was, and an agent what it had delivered.
  pace.samples_per_s =
      static_cast<double>(std::max(now.samples, before.samples) - before.samples) / lasted_s;
  StageTimes stalls = now.stalls - before.stalls;
  for (std::size_t i = 0; i < kStages; ++i)
    stalls[static_cast<Stage>(i)] = std::max(Duration(0), stalls[static_cast<Stage>(i)]);
  const double whole_s = seconds_of(stalls.sum() + now.computed - before.computed);
  if (whole_s <= 0) return pace;
  for (std::size_t i = 0; i < kStages; ++i)
    pace.stalled[i] = seconds_of(stalls[static_cast<Stage>(i)]) / whole_s;
  return pace;
}

}  // namespace batchflow::service
