#include "core/engine/grants.h"

#include <algorithm>

#include "core/check.h"
#include "core/engine/books.h"

namespace batchflow {

void Grants::begin(Job& job) {
  job.runs.clear();
  job.resumed.clear();
  Stream& stream = s_.streams[job.stream];
  const Position& position = job.committed;
  job.lanes_epoch = position.epoch();
  if (job.order == Order::relaxed) {
    if (!position.has_generation()) {
      job.member = stream.lanes->add_relaxed(job.index);
    } else {
      // The rest of a block used in part is the job's own business: for the lanes it is had.
      LanePosition lanes = position.lanes();
      for (const Position::PartBlock& part : position.part_blocks()) resume(job, part, lanes);
      if (lanes.epoch_done()) ++job.lanes_epoch;  // the member begins the next one at once
      job.member = stream.lanes->add_relaxed(job.index, lanes);
    }
  } else {
    return begin_in_sequence(job);
  }
  open_run(job, position.epoch(), position.consumed());
}

// Orders that have one sequence of blocks an epoch. Of an epoch that is over nothing is needed,
// whether or not anybody has called it finished.
void Grants::begin_in_sequence(Job& job) {
  Lanes& lanes = *s_.streams[job.stream].lanes;
  const Position& position = job.committed;
  const std::uint64_t generation = job.drawn ? job.drawn->generation() : position.epoch();
  // A weighted epoch that no step was handed out of is not drawn yet: that is done from the one
  // before it.
  const bool undrawn = job.weights && position.fields().draws == 0;
  const bool over = undrawn || position.consumed() == job.draws;
  const std::uint64_t next = position.consumed() / s_.streams[job.stream].block_samples;
  job.member = lanes.add_strict(job.index, generation, over ? lanes.blocks() - 1 : next);
  if (over) lanes.end_epoch(job.member);
  open_run(job, position.epoch() - (undrawn ? 1 : 0), undrawn ? job.draws : position.consumed());
  job.runs.back().ended = undrawn;
  job.lanes_epoch = job.runs.back().epoch + (over ? 1 : 0);
}

void Grants::resume(Job& job, const Position::PartBlock& part, LanePosition& lanes) {
  const auto open = std::find_if(lanes.open.begin(), lanes.open.end(),
                                 [&](const auto& lane) { return lane.lane == part.lane; });
  BF_CHECK(open != lanes.open.end());
  Grant grant;
  grant.name = {lanes.generation, part.lane, open->pass, part.block};
  grant.sizes = lanes.sizes;
  grant.from = part.used;
  grant.count = lanes.sizes.samples_of(part.lane, part.block) - part.used;
  job.resumed.push_back(grant);
  lanes.record(grant.name, lanes.sizes);
}

void Grants::withdraw(Job& job) {
  for (EpochRun& run : job.runs) {
    for (Grant& grant : run.grants) drop_grant(job, grant);
  }
  job.runs.clear();
  job.resumed.clear();
  if (!job.member.is_none()) {
    s_.streams[job.stream].lanes->remove(job.member);
    s_.needs_changed(job.stream);
  }
  job.member = MemberId::none();
}

void Grants::open_run(Job& job, std::uint32_t epoch, std::uint64_t consumed) {
  EpochRun run;
  run.epoch = epoch;
  run.plan = {job.draws, consumed, static_cast<std::uint32_t>(job.ranks.size()), job.batch_samples,
              job.drop_last};
  run.steps = run.plan.steps();
  run.first_step =
      job.runs.empty() ? job.committed_step : job.runs.back().first_step + job.runs.back().steps;
  job.runs.push_back(std::move(run));
}

bool Grants::may_open_next(const Job& job) const {
  const EpochRun& last = job.runs.back();
  return job.epochs == 0 || last.epoch + 1 < job.epochs;
}

// The job goes on to its next epoch: what is left of this one (a tail that drop_last leaves out)
// is given up.
bool Grants::open_next_run(Job& job) {
  if (!may_open_next(job)) return false;
  EpochRun& run = job.runs.back();
  if (run.steps > 0 && !cover(job, run, run.plan.step(run.steps - 1).to)) {
    job.waits = job.waits_to_take = true;  // blocks are taken epoch by epoch
    return false;
  }
  if (job.weights && !freeze(job)) return false;
  Lanes& lanes = *s_.streams[job.stream].lanes;
  const EpochRun& last = job.runs.back();
  job.resumed.clear();
  if (job.lanes_epoch <= last.epoch) {
    lanes.end_epoch(job.member);
    ++job.lanes_epoch;
    uncharge_unneeded(job);
  }
  if (job.weights) {
    lanes.begin_next_epoch(job.member, job.drawn->generation());
  } else if (!lanes.in_epoch(job.member)) {
    lanes.begin_next_epoch(job.member);
  }
  s_.needs_changed(job.stream);
  open_run(job, last.epoch + 1, 0);
  return true;
}

// A weighted epoch begins when the last one is committed, with the scores that have come by then;
// so no step of an epoch is ever drawn from weights that are gone.
bool Grants::freeze(Job& job) {
  const EpochRun& last = job.runs.back();
  if (job.committed_step < last.first_step + last.steps || !job.weights->settled()) return false;
  job.weights->freeze();
  if (job.weights->frozen().total() == 0) {
    job.nothing_to_draw = true;
    return false;
  }
  draw(s_, job, last.epoch + 1);
  return true;
}

// Blocks made ahead of a tail that is left out.
void Grants::uncharge_unneeded(const Job& job) {
  for (std::size_t i = job.charged.size(); i-- > 0;) {
    Block& block = s_.blocks[job.charged[i]];
    if (block.resident && !is_charged_for_need(s_, block)) uncharge(s_, block);
  }
}

bool Grants::over(const Job& job) const {
  return job.epochs != 0 && job.runs.back().epoch >= job.epochs;
}

bool Grants::has_step(Job& job, std::uint64_t step) {
  if (over(job)) return false;
  while (step >= job.runs.back().first_step + job.runs.back().steps) {
    if (!open_next_run(job)) return false;
  }
  return true;
}

EpochRun& Grants::run_of(Job& job, std::uint64_t step) {
  for (EpochRun& run : job.runs) {
    if (step < run.first_step + run.steps) return run;
  }
  check_failed("a step belongs to an epoch", __FILE__, __LINE__, "");
}

bool Grants::cover(Job& job, EpochRun& run, std::uint64_t to) {
  while (run.plan.consumed + run.granted < to) {
    if (!take_next(job, run)) return false;
  }
  return true;
}

// The tail repeats samples from its start: their blocks are not done with before that.
std::uint32_t Grants::fillers_in(const EpochRun& run, const Grant& grant) {
  if (run.steps == 0) return 0;
  const Places tail = run.plan.step(run.steps - 1);
  const std::uint64_t end = grant.start + grant.count;
  if (end <= tail.from || tail.count() == run.plan.step_samples()) return 0;
  std::uint64_t fillers = 0;
  for (Rank rank = 0; rank < run.plan.ranks; ++rank) {
    for (const Places& filler : run.plan.batch(run.steps - 1, rank).fillers) {
      const std::uint64_t from = std::max(filler.from, grant.start);
      const std::uint64_t to = std::min(filler.to, end);
      if (from < to) fillers += to - from;
    }
  }
  return static_cast<std::uint32_t>(fillers);
}

bool Grants::take_next(Job& job, EpochRun& run) {
  if (!job.resumed.empty()) {
    const Grant grant = job.resumed.front();
    job.resumed.erase(job.resumed.begin());
    push(run, grant);
    return true;
  }
  Stream& stream = s_.streams[job.stream];
  Lanes& lanes = *stream.lanes;
  lanes.candidates(job.member, found_);
  if (found_.empty()) return false;
  views_.clear();
  for (const Lanes::Candidate& candidate : found_) {
    const Block& block = s_.blocks[lanes.tag(candidate.block)];
    views_.push_back({candidate.distance, candidate.ready, lanes.needed(candidate.block),
                      seconds(s_.now - block.since)});
  }
  // A strict order leaves no choice.
  const std::size_t choice = job.order == Order::relaxed
                                 ? selection_->choose({job.id, job.order, views_})
                                 : (views_.front().ready ? 0 : kNoChoice);
  if (choice == kNoChoice) return false;
  if (choice >= found_.size() || !views_[choice].ready) {
    ++refused_;
    return false;
  }
  const BlockRef ref = found_[choice].block;
  const std::uint32_t index = lanes.tag(ref);
  Grant grant;
  grant.block = {index, s_.blocks[index].serial};
  grant.ref = ref;
  grant.name = s_.blocks[index].name;
  grant.sizes = s_.blocks[index].sizes;
  grant.count = s_.blocks[index].samples;
  // A strict job may have been resumed inside a block.
  if (job.order != Order::relaxed && run.granted == 0) {
    grant.from = static_cast<std::uint32_t>(run.plan.consumed % grant.sizes.block_samples);
    grant.count -= grant.from;
  }
  if (lanes.take(job.member, ref)) ++job.lanes_epoch;
  push(run, grant);
  tell_need(s_, index);
  return true;
}

void Grants::push(EpochRun& run, const Grant& grant) {
  run.grants.push_back(grant);
  Grant& mine = run.grants.back();
  mine.start = run.plan.consumed + run.granted;
  mine.unserved = mine.count + fillers_in(run, mine);
  run.granted += mine.count;
  if (Block* block = s_.at(mine.block)) ++block->grants;
}

Grant& Grants::grant_at(EpochRun& run, std::uint64_t place) {
  auto after =
      std::upper_bound(run.grants.begin(), run.grants.end(), place,
                       [](std::uint64_t value, const Grant& grant) { return value < grant.start; });
  BF_CHECK(after != run.grants.begin());
  Grant& grant = *std::prev(after);
  BF_CHECK(place < grant.start + grant.count);
  return grant;
}

void Grants::served(Job& job, Grant& grant, std::uint32_t samples) {
  BF_CHECK(grant.unserved >= samples);
  grant.unserved -= samples;
  if (grant.unserved == 0) drop_grant(job, grant);
}

// The job has had all of the block, or gives it up.
void Grants::drop_grant(Job& job, Grant& grant) {
  Block* block = s_.at(grant.block);
  grant.block = {};
  grant.wanted = false;
  if (!block) return;
  BF_CHECK(block->grants > 0);
  --block->grants;
  const bool mine = block->charged_job == job.index;
  if (block->resident && (mine || !is_charged_for_need(s_, *block))) uncharge(s_, *block);
  const auto index = block->resident ? s_.memory[block->share].owner_of[block->item.value] : kNone;
  if (index != kNone) tell_need(s_, index);
}

void Grants::forget_committed(Job& job) {
  while (!job.runs.empty()) {
    EpochRun& run = job.runs.front();
    const std::uint64_t done = std::min(job.committed_step - run.first_step, run.steps);
    const std::uint64_t upto = done == run.steps ? run.plan.samples : run.plan.step(done).from;
    while (!run.grants.empty() && run.grants.front().start + run.grants.front().count <= upto &&
           (run.grants.front().unserved == 0 || done == run.steps)) {
      drop_grant(job, run.grants.front());
      run.grants.pop_front();
    }
    if (done < run.steps || job.runs.size() == 1) return;
    for (Grant& grant : run.grants) drop_grant(job, grant);
    job.runs.pop_front();
  }
}

// Fillers may come from anywhere in the step.
std::uint64_t Grants::batch_end(const EpochRun& run, const Batch& batch) {
  const std::uint64_t t = batch.step - run.first_step;
  const RankBatch places = run.plan.batch(t, batch.rank);
  return places.filler_count() > 0 ? run.plan.step(t).to : places.own.to;
}

std::uint32_t Grants::missing_blocks(Job& job) {
  if (!job.waits) return 0;
  std::uint64_t samples = 0;
  for (const RankState& rank : job.ranks) {
    for (const std::uint32_t index : rank.batches) {
      const Batch& batch = s_.batches[index];
      if (batch.uncut.count() == 0 && batch.fillers_cut) continue;
      const EpochRun& run = run_of(job, batch.step);
      const std::uint64_t end = batch_end(run, batch);
      const std::uint64_t have = run.plan.consumed + run.granted;
      if (end > have) samples = std::max(samples, end - have);
    }
  }
  const std::uint32_t block = s_.streams[job.stream].block_samples;
  return std::max(1u, static_cast<std::uint32_t>((samples + block - 1) / block));
}

}  // namespace batchflow
