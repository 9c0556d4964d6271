#include "runtime/service/jobs/job_status.h"

#include <algorithm>

#include "fmt/format.h"
#include "runtime/service/jobs/job.h"

namespace batchflow::service {

namespace {

constexpr std::size_t kRanksNamed = 8;

}  // namespace

JobStatus status_of(const ServedJob& job, const StallBook& stalls, Instant now) {
  JobStatus one = job.sums;
  one.id = job.id;
  one.name = job.name;
  one.user = job.user;
  one.dataset = job.dataset->name;
  one.pipeline = job.pipeline->name;
  one.order = job.request.order;
  one.batch_samples = job.request.batch_samples;
  one.world_size = job.request.world_size;
  one.running = job.running;
  one.left = job.has_left();
  one.ideal = job.ideal.status();
  one.ideal.are_allowed = job.allows_ideal();
  one.batch_bytes = job.batch_bytes;
  if (!one.running) one.waits_to_begin = now - job.since;
  one.waits_for = stalls.stage(job.pipeline->id, job.is_live());
  one.shuffle_seed = job.request.shuffle_seed;
  one.drop_last = job.request.drop_last;
  one.order_options = job.request.order_options;
  one.credits = job.credits;
  one.weight = job.request.weight;
  one.latency_target_s = job.request.latency_target_s;
  one.exemplars = std::max<std::uint64_t>(job.request.exemplars.size(), job.buffer_samples);
  one.pipeline_id = job.pipeline->id;
  one.pipeline_hash = job.pipeline->hash;
  const std::uint64_t in_all = job.request.steps > 0    ? job.request.steps
                               : job.request.epochs > 0 ? job.request.epochs * job.steps_per_epoch()
                                                        : 0;
  if (in_all > 0) one.steps_to_go = in_all - std::min(in_all - 1, one.steps);
  for (const RankEnd* end : job.ranks) {
    if (!end) continue;
    ++one.ranks_here;
    if (const std::string& from = end->peer->from(); !from.empty()) {
      ++one.remote_ranks;
      one.from.insert(from);
    }
    one.stalls += stalls.times_of(end->wait);
    one.waiting += end->wait.is_on() ? 1 : 0;
    one.waits = std::max(one.waits, stalls.lasted(end->wait));
    one.held += static_cast<std::uint32_t>(end->held.size());
  }
  return one;
}

std::string waits_for_ranks(const RankEnd& end) {
  const ServedJob& job = *end.job;
  if (job.over) return {};
  std::string others;
  std::size_t count = 0;
  const auto add = [&](Rank rank, const RankEnd* other) {
    if (++count > kRanksNamed) return;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", rank);
    if (other) others += fmt::format(" (process {})", other->request.pid);
  };
  const auto named = [&] {
    if (count > kRanksNamed) others += fmt::format(" and {} more", count - kRanksNamed);
    return fmt::format("rank{} {}", count > 1 ? "s" : "", others);
  };
  if (!job.is_announced) {
    for (Rank rank = 0; rank < job.ranks.size(); ++rank)
      if (!job.ranks[rank]) add(rank, nullptr);
    return fmt::format("{} of {} to join job '{}'", named(), job.ranks.size(), job.name);
  }
  if (!job.running) return {};
  // Each rank may be ahead of the slowest by its credits, and no further.
  std::uint64_t slowest = end.consumed;
  for (const RankEnd* other : job.ranks)
    if (other) slowest = std::min(slowest, other->consumed);
  if (slowest == end.consumed) return {};
  for (Rank rank = 0; rank < job.ranks.size(); ++rank)
    if (job.ranks[rank] && job.ranks[rank]->consumed == slowest) add(rank, job.ranks[rank]);
  return fmt::format("{} of job '{}', {} at step {} where this one is at {}", named(), job.name,
                     count > 1 ? "which are" : "which is", slowest, end.consumed);
}

}  // namespace batchflow::service
