#include "sim/world/job_schedule.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "sim/world/kernel.h"

namespace batchflow::world {

JobSchedule::JobSchedule(const Parts& parts, JobTable& jobs, Listener& listener)
    : world_(parts),
      jobs_(jobs),
      listener_(listener),
      gpus_(parts.scenario.cluster),
      queue_(parts.scenario.scheduler) {}

void JobSchedule::wait(std::uint32_t index) {
  const Job& job = jobs_[index];
  const auto epochs = static_cast<double>(job.preparation->epochs);
  queue_.add(index, *job.model, scaled(job.model->work(), epochs), job.attained);
}

void JobSchedule::give_gpus() {
  queue_.each([this](std::uint32_t index) {
    Job& job = jobs_[index];
    auto nodes = gpus_.take(*job.model);
    if (!nodes && make_room_for(index)) nodes = gpus_.take(*job.model);
    if (nodes) {
      std::vector<std::uint32_t> numbers = gpus_.number(*nodes);
      assign(job, std::move(*nodes), std::move(numbers));
      with_gpus_.insert(index);
      job.has_gpus_since = world_.kernel.now();
      if (preempts()) watch_for_much(index);
      listener_.has_gpus(index);
      return JobQueue::Answer::took;
    }
    const bool stop = queue_.is_strict() || gpus_.all_taken();
    return stop && !preempts() ? JobQueue::Answer::stop : JobQueue::Answer::waits;
  });
}

void JobSchedule::give_back(const Job& job) {
  with_gpus_.erase(jobs_.index_of(job));
  gpus_.give_back(job.gpus, job.gpu_numbers);
}

// Where blocks stand for streams of them, GPUs that move on together anyway are one rank. There are
// as many ranks as a step has blocks, on nodes of their own as far as there are so many.
void JobSchedule::assign(Job& job, std::vector<NodeId> gpus,
                         std::vector<std::uint32_t> numbers) const {
  job.gpus = std::move(gpus);
  job.gpu_numbers = std::move(numbers);
  job.nodes = job.gpus;
  job.ring = job.gpus;
  std::sort(job.ring.begin(), job.ring.end());
  job.ring.erase(std::unique(job.ring.begin(), job.ring.end()), job.ring.end());
  if (!job.preparation->is_streamed) return;
  std::map<NodeId, std::uint32_t> on;
  for (const NodeId node : job.gpus) ++on[node];
  std::vector<std::pair<std::uint32_t, NodeId>> nodes;
  for (const auto& [node, count] : on) nodes.emplace_back(count, node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::uint32_t blocks =
      job.batch /
      world_.scenario.pipelines[static_cast<std::size_t>(job.model->pipeline)].items_per_block;
  nodes.resize(std::bit_floor(std::min<std::size_t>(nodes.size(), std::max(1u, blocks))));
  job.nodes.clear();
  for (const auto& [count, node] : nodes) job.nodes.push_back(node);
}

TotalTime JobSchedule::attained(const Job& job) const {
  return job.attained +
         TotalTime(world_.kernel.now() - job.has_gpus_since) * static_cast<double>(job.gpus.size());
}

// When a job has had much GPU time, others may get its GPUs, though no job comes or goes just then.
void JobSchedule::watch_for_much(std::uint32_t index) {
  const Job& job = jobs_[index];
  const Duration left = JobQueue::until_much(job.attained, job.gpus.size());
  if (left <= Duration(0)) return;
  world_.kernel.after(left, [this, index, restarts = job.restarts] {
    const Job& now = jobs_[index];
    if (now.restarts == restarts && now.state == Job::State::running) give_gpus();
  });
}

// The job that got its GPUs last leaves them first.
bool JobSchedule::make_room_for(std::uint32_t index) {
  if (!preempts() || JobQueue::has_had_much(jobs_[index].attained)) return false;
  std::vector<std::uint32_t> victims;
  for (const std::uint32_t one : with_gpus_) {
    const Job& job = jobs_[one];
    if (job.state == Job::State::running && JobQueue::has_had_much(attained(job)))
      victims.push_back(one);
  }
  std::sort(victims.begin(), victims.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(jobs_[b].has_gpus_since, b) < std::pair(jobs_[a].has_gpus_since, a);
  });
  const std::uint64_t wanted = jobs_[index].model->ranks;
  std::uint64_t free = gpus_.free();
  std::size_t leave = 0;
  for (; leave < victims.size() && free < wanted; ++leave)
    free += jobs_[victims[leave]].gpus.size();
  if (free < wanted) return false;
  for (std::size_t i = 0; i < leave; ++i) listener_.preempt(victims[i]);
  return true;
}

}  // namespace batchflow::world
