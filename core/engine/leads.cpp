#include "core/engine/leads.h"

#include <algorithm>

namespace batchflow::engine {

// How far the job has come, in blocks: the same measure for all jobs of a stream.
std::int64_t Leads::progress(const Stream& stream, const Job& job) {
  const EpochRun& run = job.runs.back();
  const std::uint64_t blocks =
      run.epoch * stream.lanes->sizes(job.member).blocks() + run.plain.end() / stream.block_samples;
  return static_cast<std::int64_t>(blocks) + job.head_start;
}

// The job has taken all that it will: no job has to wait for it to move on.
bool Leads::has_taken_all(const Job& job) {
  const EpochRun& run = job.runs.back();
  if (job.epochs == 0 || run.epoch + 1 < job.epochs) return false;
  return run.steps == 0 || run.plain.end() >= run.plan.plain.step(run.steps - 1).to;
}

// The progress of the slowest job of the stream; INT64_MAX: there is none.
std::int64_t Leads::slowest(const Stream& stream, const Job* but) const {
  std::int64_t least = INT64_MAX;
  for (const JobIndex index : stream.jobs) {
    const Job& one = s_.jobs[index];
    if (&one == but || one.state != Job::State::running || one.runs.empty()) continue;
    if (has_taken_all(one)) continue;
    least = std::min(least, progress(stream, one));
  }
  return least;
}

void Leads::level(Job& job) {
  const Stream& stream = s_.streams[job.stream];
  const std::int64_t others = slowest(stream, &job);
  if (others == INT64_MAX) return;
  const std::int64_t behind = others - progress(stream, job);
  if (job.numbering == 0 || behind > 0) job.head_start += behind;
}

std::uint32_t Leads::lead(const Job& job) {
  const Stream& stream = s_.streams[job.stream];
  if (stream.jobs.size() < 2) return 0;
  if (slowest_.size() <= job.stream.value) slowest_.resize(job.stream.value + 1);
  Slowest& slowest = slowest_[job.stream.value];
  if (slowest.as_of != times_) {
    slowest = {times_, this->slowest(stream, nullptr)};
  }
  if (slowest.progress == INT64_MAX) return 0;  // no job is left to wait for
  const std::int64_t lead = std::max<std::int64_t>(0, progress(stream, job) - slowest.progress);
  return static_cast<std::uint32_t>(std::min<std::int64_t>(lead, UINT32_MAX));
}

}  // namespace batchflow::engine
