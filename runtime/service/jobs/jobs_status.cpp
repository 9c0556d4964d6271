// What people are told of jobs: how far each is, and what its ranks wait for.
#include <algorithm>
#include <utility>

#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {

void Jobs::begin_wait(RankEnd& end) {
  if (end.finished || end.left || end.wait.is_on()) return;
  end.wait = stalls_.begin(end.job->pipeline->id);
}

void Jobs::end_wait(RankEnd& end) {
  if (!end.wait.is_on()) return;
  const StageTimes ended = stalls_.times_of(end.wait);
  end.wait = {};
  end.waited_here = ended.sum();
  add_stall(*end.job, ended);
}

void Jobs::add_stall(Job& job, const StageTimes& ended) {
  job.sums.stalls += ended;
  stalls_.add(ended);
}

StageTimes Jobs::stalls() const {
  StageTimes all = stalls_.ended();
  for (const auto& [peer, end] : ends_) all += stalls_.times_of(end->wait);
  return all;
}

std::vector<Jobs::Status> Jobs::status(Instant now) const {
  std::vector<Status> all;
  for (const auto& job : jobs_) {
    Status one = job->sums;
    one.id = job->id;
    one.name = job->name;
    one.user = job->user;
    one.dataset = job->dataset->name;
    one.pipeline = job->pipeline->name;
    one.order = job->request.order;
    one.batch_samples = job->request.batch_samples;
    one.world_size = job->request.world_size;
    one.running = job->running;
    one.left = job->has_left();
    one.batch_bytes = job->batch_bytes;
    if (!one.running) one.waits_to_begin = now - job->since;
    one.waits_for = stalls_.stage(job->pipeline->id);
    for (const RankEnd* end : job->ranks) {
      if (!end) continue;
      ++one.ranks_here;
      if (const std::string& from = end->peer->from(); !from.empty()) {
        ++one.remote_ranks;
        one.from.insert(from);
      }
      one.stalls += stalls_.times_of(end->wait);
      one.waiting += end->wait.is_on() ? 1 : 0;
      one.waits = std::max(one.waits, stalls_.lasted(end->wait));
      one.held += static_cast<std::uint32_t>(end->held.size());
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace batchflow::service
