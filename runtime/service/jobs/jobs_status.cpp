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
    one.shuffle_seed = job->request.shuffle_seed;
    one.drop_last = job->request.drop_last;
    one.order_options = job->request.order_options;
    one.credits = job->request.credits == 0 ? options_.credits : job->request.credits;
    one.weight = job->request.weight;
    one.latency_target_s = job->request.latency_target_s;
    one.exemplars = std::max<std::uint64_t>(job->request.exemplars.size(), job->buffer_samples);
    one.pipeline_id = job->pipeline->id;
    one.pipeline_hash = job->pipeline->hash;
    const std::uint64_t in_all = job->request.steps > 0 ? job->request.steps
                                 : job->request.epochs > 0
                                     ? job->request.epochs * steps_per_epoch(*job)
                                     : 0;
    if (in_all > 0) one.steps_to_go = in_all - std::min(in_all - 1, one.steps);
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
