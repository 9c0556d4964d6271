#include "core/engine/grants.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/base/saturating.h"
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
      // Only this job has the rest of a block that was used in part: for the lanes the block is
      // had.
      order::LanePosition lanes = position.lanes();
      for (const order::Position::PartBlock& part : position.part_blocks())
        resume(job, part, lanes);
      if (lanes.epoch_done()) ++job.lanes_epoch;  // the member begins the next one at once
      job.member = stream.lanes->add_relaxed(job.index.value, lanes);
    }
  } else if (job.order == Order::live) {
    return job.keyed ? begin_keyed(job) : begin_live(job);
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
  // It may go on where an epoch begins that it had not opened when it went back.
  if (job.mixed && job.mixed_epoch != position.epoch() && position.consumed() == 0) {
    job.mixed->begin_next_epoch(*position.fields().mixing);
    job.mixed_epoch = position.epoch();
  }
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

// ------------------------------------------------------------------------------------ live ----

// Its indices count from where it begins, so no position names them.
void Grants::begin_live(Job& job) {
  const Stream& stream = s_.streams[job.stream];
  const order::Position::Fields& at = job.committed.fields();
  auto epoch = std::make_unique<order::LiveEpoch>(
      order::KeyRoot{at.dataset_version, at.seed}, hash(job.id.value, ++s_.serials),
      job.committed.next_record(), at.rehearsed, static_cast<std::uint32_t>(job.ranks.size()),
      job.batch_samples, job.fills_from);
  job.live = epoch.get();
  job.drawn = std::move(epoch);
  job.short_since = kNever;
  begin_drawn(job, order::kLiveBlocksMost,
              order::live_block_samples(job.batch_samples, stream.block_samples));
  job.runs.back().acknowledged = at.consumed;
}

void Grants::begin_keyed(Job& job) {
  auto epoch = std::make_unique<order::KeyedEpoch>(hash(job.id.value, ++s_.serials));
  job.keys = epoch.get();
  job.drawn = std::move(epoch);
  begin_drawn(job, order::KeyedEpoch::kBlocks, 1);
}

// An epoch of so many blocks, of draws that become known as the job goes on.
void Grants::begin_drawn(Job& job, std::uint64_t blocks, std::uint32_t block_samples) {
  const auto lane_blocks =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(256, blocks / order::kLanesMost));
  const order::LaneSizes sizes{blocks * block_samples, block_samples, lane_blocks};
  order::Lanes& lanes = *s_.streams[job.stream].lanes;
  lanes.set_sizes(sizes);
  job.member = lanes.add_strict(job.index.value, job.drawn->generation(), 0);
  job.lanes_epoch = job.committed.epoch();
  job.draws = sizes.samples;
  open_run(job, job.lanes_epoch, 0);
}

bool Grants::ask(Job& job, std::span<const SampleId> samples) {
  const Dataset& dataset = s_.datasets[job.dataset];
  const std::uint64_t first = dataset.source ? dataset.source->first : 0;
  const std::uint64_t end = dataset.source ? dataset.source->end : dataset.catalogue->samples();
  const bool known = std::all_of(samples.begin(), samples.end(), [&](SampleId sample) {
    return sample.value >= first && sample.value < end;
  });
  if (!job.keys || job.runs.empty() || !known) return false;
  const std::uint64_t out = job.runs.back().first_step + job.keys->asked() - job.committed_step;
  if (samples.size() > job.credits - std::min<std::uint64_t>(out, job.credits)) return false;
  job.keys->ask(samples);
  job.ranks.front().stall.wanted(s_.now, static_cast<std::uint32_t>(samples.size()));
  s_.look_at(job.index);
  return true;
}

bool Grants::is_decided(const Job& job, order::BlockRef block) const {
  if (!job.live && !job.keys) return true;
  const order::Lanes& lanes = *s_.streams[job.stream].lanes;
  const order::BlockName name = lanes.name(block);
  const order::LaneSizes& sizes = lanes.sizes(block);
  return job.drawn->has((sizes.first_block_of(name.lane) + name.block) * sizes.block_samples);
}

// Whether it is known what the step has.
bool Grants::decide(Job& job, std::uint64_t step) {
  EpochRun& run = job.runs.back();
  while (step - run.first_step >= job.live->steps()) {
    if (job.live->has_ended() || !decide_next(job, run)) return false;
  }
  return step < run.first_step + run.steps;
}

// A step has the next records as soon as there are enough for all ranks. Where they do not come,
// and the job has used up all that it had, it is filled after a while.
bool Grants::decide_next(Job& job, EpochRun& run) {
  order::LiveEpoch& live = *job.live;
  const GrowingSource& source = *s_.datasets[job.dataset].source;
  const std::uint64_t whole = live.step_samples();
  const std::uint64_t there = source.end - live.next();
  if (there < whole && source.ended) return end_live(live, run, there);
  if (there < whole) {
    if (run.first_step + live.steps() != job.committed_step) return false;
    job.short_since = std::min(job.short_since, s_.now);
    const std::uint64_t least = job.fills_cut ? job.ranks.size() : 0;
    if (there < least || !live.can_fill(source.first)) return false;
    const Instant due = after(job.short_since, job.fills_after);
    if (s_.now < due) {
      s_.ask_again(due, job.fills_at, {AlarmKind::look_at_job, job.index.value, job.serial});
      return false;
    }
  }
  live.decide(std::min(there, whole), source.first);
  job.short_since = kNever;
  const std::uint64_t left = source.end - live.next();
  if (source.ended && (left == 0 || (job.drop_last && left < whole))) end_live(live, run, left);
  return true;
}

// Now it is known how many steps there are.
bool Grants::end_live(order::LiveEpoch& live, EpochRun& run, std::uint64_t records) {
  live.end(records);
  run.plan.plain.samples = live.end_index();
  run.steps = run.plan.steps();
  return true;
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
  if (job.rehearsed == 0) return;
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
  if (!may_open_next(job)) return false;
  EpochRun& run = job.runs.back();
  if (run.steps > 0 && !cover(job, run, run.plan.plain.step(run.steps - 1).to)) {
    job.wait(Job::Waits::to_take);  // blocks are taken epoch by epoch
    return false;
  }
  if (job.weights && !freeze(job)) return false;
  // The next epoch rehearses from what this one has left in the buffer.
  if (job.buffer && !has_committed_all(job)) return false;
  if (job.mixed) {
    if (!has_committed_all(job)) return false;
    job.mixed->begin_next_epoch(*job.committed.fields().mixing);
    job.mixed_epoch = run.epoch + 1;
  }
  if (job.keys) {
    if (!has_committed_all(job)) return false;
    job.keys->begin_next_epoch();
  }
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

bool Grants::has_committed_all(const Job& job) {
  const EpochRun& last = job.runs.back();
  return job.committed_step >= last.first_step + last.steps;
}

// A weighted epoch begins when the last one is committed, with the scores that have come by then.
// So no step of an epoch is ever drawn from weights that are gone.
bool Grants::freeze(Job& job) {
  if (!has_committed_all(job) || !job.weights->settled() || !freeze_newest(job)) return false;
  draw(job, job.runs.back().epoch + 1);
  return true;
}

bool Grants::freeze_newest(Job& job) {
  job.weights->freeze();
  if (job.weights->frozen().total() > 0) return true;
  job.to_refuse = Refusal::nothing_to_draw;
  return false;
}

void Grants::draw(Job& job, std::uint32_t epoch) {
  const Catalogue& catalogue = *s_.datasets[job.dataset].catalogue;
  const order::KeyRoot root{catalogue.version(), job.committed.fields().seed};
  const order::WeightTree& weights = job.weights->frozen();
  job.drawn = std::make_unique<order::WeightedEpoch>(
      weights, root, epoch, job.draws,
      job.multinomial ? order::Drawing::multinomial : order::Drawing::systematic);
  if (job.committed.epoch() == epoch) job.committed.begin_draws(weights.digest(), job.draws);
}

void Grants::draw_mixture(Job& job) {
  const order::Position::Fields& at = job.committed.fields();
  auto epoch = std::make_unique<order::MixedEpoch>(
      *at.mixing, order::KeyRoot{at.dataset_version, at.seed}, at.consumed, at.draws);
  job.mixed = epoch.get();
  job.mixed_epoch = at.epoch;
  job.drawn = std::move(epoch);
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
  if (job.keys) return step - job.runs.back().first_step < job.keys->asked();
  return !job.live || decide(job, step);
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

// Of equal ones, the one that was opened first.
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
    if (job.mixed && run.epoch == job.committed.epoch()) {
      const std::uint32_t block = s_.streams[job.stream].block_samples;
      job.mixed->forget(job.committed.consumed() / block * block);
    }
    if (job.live) job.live->forget(done * job.live->step_samples());
    if (job.keys && &run == &job.runs.back()) job.keys->forget(done);
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
