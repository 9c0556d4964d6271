#include "core/engine/grants.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/engine/books.h"
#include "core/order/generation_numbers.h"

namespace batchflow::engine {

void Grants::begin(Job& job) {
  job.runs.clear();
  job.resumed.clear();
  Stream& stream = s_.streams[job.stream];
  const order::Position& position = job.committed;
  job.lanes_epoch = position.epoch();
  if (job.order == Order::relaxed) {
    choose_numbers(job, stream);
    if (!position.has_generation()) {
      job.member = stream.lanes->add_relaxed(job.index.value);
    } else {
      // Only this job has the rest of a block that was used in part, so the lanes count the block
      // as had.
      order::LanePosition lanes = position.lanes();
      for (const order::Position::PartBlock& part : position.part_blocks())
        resume(job, part, lanes);
      if (lanes.epoch_done()) ++job.lanes_epoch;  // the member begins the next one at once
      job.member = stream.lanes->add_relaxed(job.index.value, lanes);
    }
  } else if (job.order == Order::live) {
    return begin_live(job);
  } else {
    return begin_in_sequence(job);
  }
  open_run(job, position.epoch(), position.consumed());
  if (job.node_local) job.runs.back().begun = BegunLanes(position);
}

// A job that asked for a seed counts as others with that seed do.
void Grants::choose_numbers(const Job& job, Stream& stream) {
  const std::uint64_t had = job.committed.lanes().generation;
  const bool of_own = order::is_of_own_stream(had);
  if (of_own && !stream.alone) stream.lanes->observe(order::before_shared_stream(had));
  if (!of_own && stream.alone && !job.has_shuffle_seed)
    stream.lanes->observe(order::before_own_stream(had, hash(3, job.user, job.id.value)));
}

// For orders that have one sequence of blocks an epoch. An epoch that is over needs nothing, even
// if finish_epoch() was not called for it.
void Grants::begin_in_sequence(Job& job) {
  order::Lanes& lanes = *s_.streams[job.stream].lanes;
  const order::Position& position = job.committed;
  drawn_epochs_.go_on(job);
  const std::uint64_t generation = job.drawn ? job.drawn->generation() : position.epoch();
  // A weighted epoch of which no step was handed out is not drawn yet. It is drawn when the one
  // before it is over.
  const bool undrawn = job.weights && position.fields().draws == 0;
  const bool over = undrawn || position.consumed() == job.draws;
  const std::uint64_t next = position.consumed() / s_.streams[job.stream].block_samples;
  // Each epoch of a drawn order is drawn when the one before it is over.
  const std::uint64_t end = job.drawn || job.weights ? 0
                            : job.epochs != 0        ? job.epochs
                                                     : UINT64_MAX;
  job.member = lanes.add_strict(job.index.value, generation, over ? lanes.blocks() - 1 : next, end);
  if (over) lanes.end_epoch(job.member);
  open_run(job, position.epoch() - (undrawn ? 1 : 0), undrawn ? job.draws : position.consumed());
  job.runs.back().ended = undrawn;
  job.lanes_epoch = job.runs.back().epoch + (over ? 1 : 0);
}

// Live and keyed jobs: an epoch begins, or goes on, where they are committed.
void Grants::begin_live(Job& job) {
  const order::LaneSizes sizes = drawn_epochs_.begin(job);
  order::Lanes& lanes = *s_.streams[job.stream].lanes;
  lanes.set_sizes(sizes);
  job.member = lanes.add_strict(job.index.value, job.drawn->generation(), 0);
  job.lanes_epoch = job.committed.epoch();
  job.draws = sizes.samples;
  open_run(job, job.lanes_epoch, 0);
  job.runs.back().acknowledged = job.committed.fields().consumed;
}

void Grants::resume(Job& job, const order::Position::PartBlock& part, order::LanePosition& lanes) {
  const auto open = std::find_if(lanes.open.begin(), lanes.open.end(),
                                 [&](const auto& lane) { return lane.lane == part.lane; });
  BF_CHECK(open != lanes.open.end());
  Grant grant;
  grant.name = {lanes.generation, part.lane, open->pass, part.block};
  grant.sizes = lanes.sizes;
  grant.from = part.used;
  grant.to = lanes.sizes.samples_of(part.lane, part.block);
  job.resumed.push_back(grant);
  lanes.record(grant.name, lanes.sizes);
}

void Grants::withdraw(Job& job) {
  for (EpochRun& run : job.runs) {
    for (Sequence* one : run.sequences()) {
      for (Grant& grant : one->grants) drop_grant(job, grant);
    }
  }
  job.runs.clear();
  job.resumed.clear();
  if (!job.member.is_none()) s_.streams[job.stream].lanes->remove(job.member);
  job.member = order::MemberId::none();
}

void Grants::open_run(Job& job, std::uint32_t epoch, std::uint64_t consumed) {
  const std::uint64_t first_step =
      job.runs.empty() ? job.committed_step : job.runs.back().first_step + job.runs.back().steps;
  EpochRun& run = job.runs.emplace_back();
  run.epoch = epoch;
  s_.begun_epochs.push_back({job.index, epoch});
  run.plan.plain = {job.draws, consumed, static_cast<std::uint32_t>(job.ranks.size()),
                    job.batch_samples, job.drop_last};
  run.plain.begin = consumed;
  const Stream& stream = s_.streams[job.stream];
  begin_rehearsal(job, run, {s_.datasets[stream.dataset].catalogue->version(), stream.seed});
  run.steps = run.plan.steps();
  run.first_step = first_step;
}

// An epoch keeps the buffer that it began with, unless its job begins it anew. Draws are counted
// over the epoch, whatever buffer they are from, so that none comes twice.
void Grants::begin_rehearsal(Job& job, EpochRun& run, order::KeyRoot root) {
  if (job.rehearsed == 0 || job.order == Order::live) return;  // live steps have fills instead
  const auto exemplars = job.buffer ? job.buffer->whole() : job.exemplars.whole();
  tell_buffer(s_, job);
  if (!exemplars) return;
  const order::Position::Fields& was = job.committed.fields();
  const std::uint64_t drawn = was.epoch == run.epoch ? was.rehearsed : 0;
  run.plan = order::RehearsalPlan::split(run.plan.plain, job.rehearsed, drawn);
  run.rehearsal = std::make_shared<const order::Rehearsal>(exemplars, root, run.epoch);
  run.rehearsed.begin = run.plan.drawn;
}

bool Grants::may_open_next(const Job& job) const {
  const EpochRun& last = job.runs.back();
  return job.epochs == 0 || last.epoch + 1 < job.epochs;
}

// The job goes on to its next epoch. What is left of this one, a tail that drop_last leaves out, is
// given up.
bool Grants::open_next_run(Job& job) {
  if (job.live) return open_next_live_run(job);
  if (!may_open_next(job)) return false;
  EpochRun& run = job.runs.back();
  if (run.steps > 0 && !cover(job, run, run.plan.plain.step(run.steps - 1).to)) {
    job.wait(Job::Waits::to_take);  // blocks are taken epoch by epoch
    return false;
  }
  // What the next epoch draws, and what it rehearses, follows from all of this one.
  if ((job.drawn || job.buffer) && !has_committed_all(job)) return false;
  if (!drawn_epochs_.begin_next(job, run.epoch + 1)) return false;
  if (is_to_move(s_, job)) {
    if (has_committed_all(job)) s_.moving_jobs.push_back(job.index);
    return false;
  }
  job.stays = false;
  order::Lanes& lanes = *s_.streams[job.stream].lanes;
  const EpochRun& last = job.runs.back();
  job.resumed.clear();
  if (job.lanes_epoch <= last.epoch) {
    lanes.end_epoch(job.member);
    ++job.lanes_epoch;
    uncharge_unneeded(job);
  }
  if (job.drawn) {
    lanes.begin_next_epoch(job.member, job.drawn->generation());
  } else if (!lanes.in_epoch(job.member)) {
    lanes.begin_next_epoch(job.member);
  }
  open_run(job, last.epoch + 1, 0);
  return true;
}

// A live job has had all blocks of its generation. Its epoch goes on in another one, as if the job
// had come back at its position, and its ranks notice nothing.
bool Grants::open_next_live_run(Job& job) {
  if (DrawnEpochs::is_at_end(job) || !has_committed_all(job)) return false;
  s_.streams[job.stream].lanes->remove(job.member);
  begin_live(job);
  return true;
}

bool Grants::has_committed_all(const Job& job) {
  const EpochRun& last = job.runs.back();
  return job.committed_step >= last.first_step + last.steps;
}

// Removes the charge of blocks that were made ahead for a tail that is left out.
void Grants::uncharge_unneeded(const Job& job) {
  for (std::size_t i = job.charged.size(); i-- > 0;) {
    Block& block = s_.blocks[job.charged[i]];
    if (block.resident && !is_charged_for_need(s_, block)) uncharge(s_, block);
  }
}

bool Grants::gets_nothing(const Job& job) const {
  return job.runs.empty() || (job.epochs != 0 && job.runs.back().epoch >= job.epochs);
}

bool Grants::has_step(Job& job, std::uint64_t step) {
  if (gets_nothing(job)) return false;
  while (step >= job.runs.back().first_step + job.runs.back().steps) {
    if (!open_next_run(job)) return false;
  }
  const bool decided = drawn_epochs_.decide(job, step);
  if (!DrawnEpochs::is_at_end(job)) return decided;
  // Now it is known how many steps there are.
  EpochRun& run = job.runs.back();
  run.plan.plain.samples = job.live->end_index();
  run.steps = run.plan.steps();
  return decided && step < run.first_step + run.steps;
}

EpochRun& Grants::run_of(Job& job, std::uint64_t step) {
  for (EpochRun& run : job.runs) {
    if (step < run.first_step + run.steps) return run;
  }
  check_failed("a step belongs to an epoch", __FILE__, __LINE__, "");
}

bool Grants::cover(Job& job, EpochRun& run, std::uint64_t to) {
  while (run.plain.end() < to) {
    if (!take_next(job, run)) return false;
  }
  return true;
}

// The tail repeats samples from its start: their blocks are needed until then.
std::uint32_t Grants::fillers_in(const EpochRun& run, const Cut& cut) {
  if (run.steps == 0) return 0;
  const order::StepPlan& plan = run.plan.plain;
  const order::IndexRange tail = plan.step(run.steps - 1);
  const std::uint64_t end = cut.start + cut.count;
  if (end <= tail.from || tail.count() == plan.step_samples()) return 0;
  std::uint64_t fillers = 0;
  for (Rank rank = 0; rank < plan.ranks; ++rank) {
    for (const order::IndexRange& filler : plan.batch(run.steps - 1, rank).fillers) {
      const std::uint64_t from = std::max(filler.from, cut.start);
      const std::uint64_t to = std::min(filler.to, end);
      if (from < to) fillers += to - from;
    }
  }
  return static_cast<std::uint32_t>(fillers);
}

Grants::Turn Grants::turn(const Job& job, const EpochRun& run) {
  if (!job.node_local) return {NodeId::none(), UINT64_MAX};
  const order::StepPlan& plan = run.plan.plain;
  const std::uint64_t index = run.plain.end();
  const std::uint32_t rank = plan.rank_at(index);
  const std::uint64_t step = (index - plan.consumed) / plan.step_samples();
  return {job.ranks[rank].node, plan.batch(step, rank).own.to - index};
}

// Cuts the next indices from the block that is open on the node that they belong to.
bool Grants::take_next(Job& job, EpochRun& run) {
  const Turn next = turn(job, run);
  const auto open = open_block(job, run, next.node);
  if (!open) return false;
  const Cut& cut = run.plain.cut(*open, next.most);
  Grant& grant = run.plain.grant(*open);
  grant.unserved += fillers_in(run, cut);
  if (job.node_local) run.begun.cut(grant.name.lane, grant.sizes, cut.count);
  if (grant.from == grant.to) {
    std::erase_if(run.open, [&](const EpochRun::Open& one) { return one.grant == *open; });
  }
  return true;
}

std::optional<std::uint64_t> Grants::open_block(Job& job, EpochRun& run, NodeId node) {
  const auto mine = std::find_if(run.open.begin(), run.open.end(),
                                 [&](const EpochRun::Open& open) { return open.node == node; });
  if (mine != run.open.end()) return mine->grant;
  // All blocks are taken: what is left lies in the blocks of other nodes.
  if (job.resumed.empty() && job.lanes_epoch > run.epoch) return largest_rest(run);
  auto taken = take_block(job, run, node);
  if (!taken) return BlockSelection::is_full(run) ? largest_rest(run) : std::nullopt;
  run.open.push_back({node, add(run.plain, std::move(*taken))});
  return run.open.back().grant;
}

// Of equal rests, that of the block that was opened first.
std::optional<std::uint64_t> Grants::largest_rest(EpochRun& run) {
  std::optional<std::uint64_t> largest;
  std::uint32_t most = 0;
  for (const EpochRun::Open& open : run.open) {
    const Grant& grant = run.plain.grant(open.grant);
    if (grant.to - grant.from <= most) continue;
    most = grant.to - grant.from;
    largest = open.grant;
  }
  return largest;
}

std::optional<Grant> Grants::take_block(Job& job, EpochRun& run, NodeId node) {
  if (!job.resumed.empty()) {
    const Grant grant = job.resumed.front();
    job.resumed.erase(job.resumed.begin());
    return grant;
  }
  const order::Lanes::Candidate* chosen = selection_.choose(job, run, node);
  if (!chosen) return std::nullopt;
  const Block& block = s_.blocks[BlockIndex(chosen->tag)];
  std::optional<Grant> taken(std::in_place);
  taken->block = {BlockIndex(chosen->tag), block.serial};
  taken->ref = chosen->block;
  taken->name = block.name;
  taken->sizes = block.sizes;
  taken->to = block.samples;
  // A strict job may have resumed inside a block.
  if (job.order != Order::relaxed && run.plain.granted == 0) {
    taken->from = static_cast<std::uint32_t>(run.plan.plain.consumed % block.sizes.block_samples);
  }
  if (s_.streams[job.stream].lanes->take(job.member, chosen->block)) ++job.lanes_epoch;
  return taken;
}

std::uint64_t Grants::add(Sequence& sequence, Grant&& grant) {
  grant.unserved = grant.to - grant.from;
  if (Block* block = s_.at(grant.block)) {
    ++block->grants;
    report_changed_takers(s_, *block);
  }
  return sequence.add(std::move(grant));
}

// ------------------------------------------------------------------------------- rehearsal ----

void Grants::rehearse(const Job& job, EpochRun& run, std::uint64_t to) {
  if (!run.rehearsal) return;
  const std::uint32_t block_samples = s_.streams[job.stream].block_samples;
  const std::uint64_t end = run.plan.buffer_draws(run.steps).from;
  while (run.rehearsed.end() < to) {
    const std::uint64_t draw = run.rehearsed.end();
    Grant grant;
    grant.rehearsal = run.rehearsal;
    grant.made = false;
    grant.name = run.rehearsal->block_of(draw, block_samples);
    grant.sizes = order::Rehearsal::sizes(block_samples);
    grant.from = static_cast<std::uint32_t>(draw % block_samples);
    grant.to = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(block_samples, grant.from + (end - draw)));
    run.rehearsed.cut(add(run.rehearsed, std::move(grant)), UINT64_MAX);
  }
}

// What the next step will rehearse is made while nothing is more urgent.
Grant* Grants::rehearsal_ahead(Job& job) {
  for (EpochRun& run : job.runs) {
    if (!run.rehearsal) continue;
    const std::uint64_t next = std::max(job.committed_step + job.credits, run.first_step);
    if (next >= run.first_step + run.steps) continue;
    rehearse(job, run, run.plan.buffer_draws(next - run.first_step).to);
    for (Grant& grant : run.rehearsed.grants) {
      if (!grant.made && grant.unserved > 0 && !s_.at(grant.block)) return &grant;
    }
  }
  return nullptr;
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
  report_changed_takers(s_, *block);
}

void Grants::forget_committed(Job& job) {
  while (!job.runs.empty()) {
    EpochRun& run = job.runs.front();
    const std::uint64_t done = std::min(job.committed_step - run.first_step, run.steps);
    const bool all = done == run.steps;
    const auto drop = [&](Grant& grant) { drop_grant(job, grant); };
    run.plain.forget(all ? run.plain.end() : run.plan.plain.step(done).from, drop);
    run.rehearsed.forget(run.plan.buffer_draws(done).from, drop);
    BlockSelection::forget_chosen(job, run.epoch);
    drawn_epochs_.forget(job, run, done);
    if (!all || job.runs.size() == 1) return;
    for (Sequence* one : run.sequences())
      std::for_each(one->grants.begin(), one->grants.end(), drop);
    job.runs.pop_front();
  }
}

// Fillers may come from anywhere in the step.
std::uint64_t Grants::batch_end(const EpochRun& run, std::uint64_t step,
                                const order::RankBatch& batch) {
  return batch.filler_count() > 0 ? run.plan.plain.step(step).to : batch.own.to;
}

std::uint32_t Grants::missing_blocks(Job& job) {
  if (!job.is_waiting()) return 0;
  std::uint64_t samples = 0;
  for (const RankState& rank : job.ranks) {
    for (const BatchIndex index : rank.batches) {
      const Batch& batch = s_.batches[index];
      if (batch.all_cut) continue;
      const EpochRun& run = run_of(job, batch.step);
      const std::uint64_t step = batch.step - run.first_step;
      const std::uint64_t end = batch_end(run, step, run.plan.plain.batch(step, batch.rank));
      const std::uint64_t have = run.plain.end();
      if (end > have) samples = std::max(samples, end - have);
    }
  }
  const std::uint32_t block = s_.streams[job.stream].block_samples;
  return std::max(1u, static_cast<std::uint32_t>((samples + block - 1) / block));
}

}  // namespace batchflow::engine
