#include "core/engine/commits.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"

namespace batchflow::engine {

// False: no job can be at the position that this job came with, and it is served no longer.
bool Commits::apply(Job& job, const EpochRun& run) {
  // Once an epoch is over, it no longer matters what it rehearsed from.
  if (!job.committed.rehearse(run.rehearsal ? run.rehearsal->buffer() : 0)) {
    check_failed("a job rehearses, and its order cannot", __FILE__, __LINE__, "");
  }
  if (job.order == Order::relaxed && !slices_.empty()) {
    const std::uint64_t generation = slices_.front().name.generation;
    if (!job.committed.has_generation() || job.committed.lanes().generation != generation) {
      const order::LaneSizes& sizes = run.plain.grants.front().sizes;
      job.committed.begin_generation(generation, sizes.block_samples, sizes.lane_blocks);
    }
  }
  if (job.committed.apply(slices_, indices_).empty()) return true;
  job.to_refuse = Refusal::bad_position;
  s_.contradicting_jobs.push_back(job.index);
  return false;
}

// Which samples the policy chose for these indices of the job's sequence.
void Commits::list_chosen(const Job& job, const EpochRun& run, order::IndexRange indices) {
  indices_.clear();
  if (!job.chosen || indices.count() == 0) return;
  for (const order::ChosenEpoch& epoch : job.chosen_epochs) {
    if (epoch.epoch() == run.epoch) epoch.add_indices(indices.from, indices.to, indices_);
  }
  std::sort(indices_.begin(), indices_.end());
}

// The step's samples, in the order of their indices.
void Commits::list_samples(const Job& job, const EpochRun& run, order::IndexRange indices) {
  had_.clear();
  if (job.mixed || job.chosen) {
    draws_.resize(indices.count());
    if (job.mixed) job.mixed->fill(indices.from, draws_);
    for (const order::ChosenEpoch& epoch : job.chosen_epochs) {
      if (epoch.epoch() == run.epoch) epoch.fill(indices.from, draws_);
    }
    for (const order::Draw& draw : draws_) had_.push_back(draw.sample);
    return;
  }
  const Stream& stream = s_.streams[job.stream];
  const std::uint64_t samples = s_.datasets[stream.dataset].catalogue->samples();
  const Sequence& plain = run.plain;
  for (std::uint64_t at = indices.from; at < indices.to;) {
    const Cut& cut = plain.cut_at(at);
    const Grant& grant = plain.grant(cut.grant);
    const std::uint64_t until = std::min(indices.to, cut.start + cut.count);
    s_.expander.expand(s_.lineage(stream, grant.sizes, grant.name), samples, block_);
    const auto first = block_.begin() + static_cast<std::ptrdiff_t>(cut.from + (at - cut.start));
    had_.insert(had_.end(), first, first + static_cast<std::ptrdiff_t>(until - at));
    at = until;
  }
}

// What was trained on is offered to the job's buffer, but for what cannot be decoded.
void Commits::show(Job& job, const EpochRun& run, order::IndexRange indices) {
  kept_.clear();
  if (!job.buffer) return;
  list_samples(job, run, indices);
  const Dataset& dataset = s_.datasets[job.dataset];
  const std::vector<SampleId>& corrupt = dataset.corrupt_by(s_.streams[job.stream].pipeline_id);
  if (!corrupt.empty()) {
    std::erase_if(had_, [&](SampleId sample) {
      return std::binary_search(corrupt.begin(), corrupt.end(), sample);
    });
  }
  job.buffer->show(*dataset.catalogue, had_, kept_);
}

void Commits::commit(Job& job) {
  std::uint64_t all = UINT64_MAX;
  for (const RankState& rank : job.ranks) all = std::min(all, rank.consumed_steps);
  if (job.order == Order::listed || job.keyed) {
    job.committed_step = all;
    if (job.keyed) grants_.forget_committed(job);
    return;
  }
  while (job.committed_step < all && !job.to_refuse) {
    const std::uint64_t step = job.committed_step;
    EpochRun& run = grants_.run_of(job, step);
    const order::IndexRange indices = run.plan.plain.step(step - run.first_step);
    slices_.clear();
    const auto keep = [&](std::uint64_t at, const Grant& /*grant*/, const order::Slice& slice) {
      if (job.live) return job.live->split(at, slice, slices_);
      slices_.push_back(slice);
    };
    run.plain.for_each_slice(indices, keep);
    run.rehearsed.for_each_slice(run.plan.buffer_draws(step - run.first_step), keep);
    list_chosen(job, run, indices);
    if (!apply(job, run)) return;
    show(job, run, indices);
    s_.promise_committed(job, step, run.epoch, slices_, indices_, kept_);
    run.acknowledged += indices.count();
    for (const order::Slice& slice : slices_) {
      if (job.live && slice.rehearsed) run.acknowledged -= slice.to - slice.from;
    }
    ++job.committed_step;
    end_epochs(job);
  }
  grants_.forget_committed(job);
}

void Commits::end_epochs(Job& job) {
  for (EpochRun& run : job.runs) {
    if (job.committed_step < run.first_step + run.steps) return;
    if (run.ended) continue;
    // A live job's epoch has many runs, and ends with its source.
    if (job.live && (&run != &job.runs.back() || !DrawnEpochs::is_at_end(job))) continue;
    run.ended = true;
    s_.emit(EpochEnded{job.id, run.epoch, run.plan.plain.consumed + run.acknowledged});
    job.committed.finish_epoch();
    s_.promise_epoch_finished(job, run.epoch);
  }
}

}  // namespace batchflow::engine
