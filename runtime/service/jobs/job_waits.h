// How long the ranks of jobs wait for batches, and compute on them.
#pragma once

#include "runtime/service/backend/stalls.h"
#include "runtime/service/jobs/job.h"

namespace batchflow::service {

class JobWaits {
 public:
  explicit JobWaits(StallBook& stalls) : stalls_(stalls) {}

  // begin(): the rank has no batch from now on. end(): it has one again.
  void begin(RankEnd& end);
  void end(RankEnd& end);
  // The rank says of its last batch how long it waited for it and computed on it.
  void consumed(RankEnd& end, Duration waited, Duration computed);

  const StallBook& stalls() const { return stalls_; }
  // Of all jobs since the start: how long each wait was, and all of them added up.
  const WaitHistogram& histogram() const { return histogram_; }
  const WaitTotals& totals() const { return totals_; }

 private:
  void add(ServedJob& job, const StageTimes& ended);

  StallBook& stalls_;
  WaitHistogram histogram_;
  WaitTotals totals_;
};

}  // namespace batchflow::service
