#include "runtime/service/jobs/job_waits.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace batchflow::service {
namespace {

// A rank that is ahead of others waits for these.
bool is_ahead(const RankEnd& rank) {
  return std::any_of(rank.job->ranks.begin(), rank.job->ranks.end(), [&](const RankEnd* other) {
    return other && other->consumed < rank.consumed;
  });
}

}  // namespace

void JobWaits::begin(RankEnd& rank) {
  if (rank.finished || rank.left || rank.wait.is_on()) return;
  rank.wait = stalls_.begin(rank.job->pipeline->id, rank.job->is_live() && !is_ahead(rank));
}

void JobWaits::end(RankEnd& rank) {
  if (!rank.wait.is_on()) return;
  const StageTimes ended = stalls_.times_of(rank.wait);
  rank.wait = {};
  rank.waited_here = ended.sum();
  add(*rank.job, ended);
}

void JobWaits::add(ServedJob& job, const StageTimes& ended) {
  job.sums.stalls += ended;
  stalls_.add(ended);
}

void JobWaits::consumed(RankEnd& end, Duration waited, Duration computed) {
  ServedJob& job = *end.job;
  job.sums.waited += waited;
  job.sums.waits_for_batches.add(waited);
  histogram_.add(waited);
  // A wait beyond what was measured here was for the batch on its way.
  StageTimes on_the_way;
  on_the_way[Stage::delivery] =
      std::max(Duration(0), waited - std::exchange(end.waited_here, Duration(0)));
  add(job, on_the_way);
  // A keyed job may have asked for nothing more.
  const bool waits_on =
      !job.request.order_options.keyed || end.keys_there > end.consumed - end.first_step;
  if (waits_on && end.delivered <= end.consumed) begin(end);
  job.sums.computed += computed;
  const double computed_s = std::chrono::duration<double>(computed).count();
  job.sums.compute_squares_s2 += computed_s * computed_s;
  ++job.sums.consumed;
  totals_.wait_s += std::chrono::duration<double>(waited).count();
  totals_.compute_s += computed_s;
}

}  // namespace batchflow::service
