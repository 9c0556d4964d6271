#include "core/engine/drawn_epochs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/random.h"
#include "core/base/saturating.h"

namespace batchflow::engine {

namespace {

// A reservoir of a job that goes on is shown so many records at a time.
constexpr std::uint64_t kShownAtOnce = 1 << 14;

// An epoch of so many blocks, of draws that become known as the job goes on.
order::LaneSizes sizes_of(std::uint64_t blocks, std::uint32_t block_samples) {
  const auto lane_blocks = static_cast<std::uint32_t>(
      std::max(std::uint64_t{256}, (blocks + order::kLanesMost - 1) / order::kLanesMost));
  return {blocks * block_samples, block_samples, lane_blocks};
}

}  // namespace

// -------------------------------------------------------------------------------- weighted ----

// A job with weights that are all zero is refused before the step ends. Until then it draws
// nothing. If the earlier weights are lost, an epoch that was begun begins again.
bool DrawnEpochs::draw_first(Job& job) {
  const bool begins = job.weights && !job.drawn && !job.to_refuse && job.weights->settled() &&
                      job.state == Job::State::running;
  const bool all_ask = std::all_of(job.ranks.begin(), job.ranks.end(),
                                   [](const RankState& rank) { return rank.credits > 0; });
  if (!begins || !all_ask || !freeze(job)) return false;
  draw(job, job.committed.epoch());
  return true;
}

// The next draws use the scores that have come. False: all weights are zero.
bool DrawnEpochs::freeze(Job& job) {
  job.weights->freeze();
  if (job.weights->frozen().total() > 0) return true;
  job.to_refuse = Refusal::nothing_to_draw;
  return false;
}

void DrawnEpochs::draw(Job& job, std::uint32_t epoch) {
  const Catalogue& catalogue = *s_.datasets[job.dataset].catalogue;
  const order::KeyRoot root{catalogue.version(), job.committed.fields().seed};
  const order::WeightTree& weights = job.weights->frozen();
  job.drawn = std::make_unique<order::WeightedEpoch>(
      weights, root, epoch, job.draws,
      job.multinomial ? order::Drawing::multinomial : order::Drawing::systematic);
  if (job.committed.epoch() == epoch) job.committed.begin_draws(weights.digest(), job.draws);
}

// ----------------------------------------------------------------------------------- mixed ----

void DrawnEpochs::begin_mixture(Job& job) {
  const order::Position::Fields& at = job.committed.fields();
  auto epoch = std::make_unique<order::MixedEpoch>(
      *at.mixing, order::KeyRoot{at.dataset_version, at.seed}, at.consumed, at.draws);
  job.mixed = epoch.get();
  job.mixed_epoch = at.epoch;
  job.drawn = std::move(epoch);
  unsettled_.push_back(job.index);
}

bool DrawnEpochs::is_settled(const Job& job) const {
  return std::find(unsettled_.begin(), unsettled_.end(), job.index) == unsettled_.end();
}

// The orders of a mixture's sources are found over several steps before its job begins.
std::vector<JobIndex> DrawnEpochs::settle(std::uint64_t most) {
  std::vector<JobIndex> settled;
  for (const JobIndex index : unsettled_) {
    if (!s_.jobs[index].mixed->settle(most)) {
      s_.alarms.set(s_.now, {});
      break;
    }
    settled.push_back(index);
  }
  unsettled_.erase(unsettled_.begin(),
                   unsettled_.begin() + static_cast<std::ptrdiff_t>(settled.size()));
  return settled;
}

void DrawnEpochs::begin_mixed_epoch(Job& job, std::uint32_t epoch) {
  job.mixed->begin_next_epoch(*job.committed.fields().mixing);
  job.mixed_epoch = epoch;
}

// -------------------------------------------------------------------------- live and keyed ----

// The epoch's indices count from where it begins, so no position names them.
order::LaneSizes DrawnEpochs::begin(Job& job) {
  const std::uint64_t generation = hash(job.id.value, ++s_.serials);
  if (job.keyed) {
    auto epoch = std::make_unique<order::KeyedEpoch>(generation);
    job.keys = epoch.get();
    job.drawn = std::move(epoch);
    return sizes_of(order::KeyedEpoch::kBlocks, 1);
  }
  const order::Position::Fields& at = job.committed.fields();
  auto epoch = std::make_unique<order::LiveEpoch>(
      order::KeyRoot{at.dataset_version, at.seed}, generation, job.committed.next_record(),
      at.rehearsed, static_cast<std::uint32_t>(job.ranks.size()), job.batch_samples,
      order::Filling{job.fills_from, job.rehearsed, job.reservoir, at.first});
  job.live = epoch.get();
  job.drawn = std::move(epoch);
  job.short_since = kNever;
  const std::uint32_t block_samples =
      order::live_block_samples(job.batch_samples, s_.streams[job.stream].block_samples);
  const std::uint64_t step_blocks = job.live->step_samples() / block_samples;
  const std::uint64_t steps = std::max<std::uint64_t>(1, s_.config.live_blocks_most / step_blocks);
  return sizes_of(steps * step_blocks, block_samples);
}

bool DrawnEpochs::ask(Job& job, std::span<const SampleId> samples) {
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

bool DrawnEpochs::decide(Job& job, std::uint64_t step) {
  step -= job.runs.back().first_step;
  if (job.keys) return step < job.keys->asked();
  while (job.live && step >= job.live->steps()) {
    if (job.live->has_ended() || !decide_next(job)) return false;
  }
  return true;
}

// A step has the next records as soon as there are enough for all ranks, beside those that it
// rehearses. Where they do not come, and the job has used up all that it had, it is filled after a
// while.
bool DrawnEpochs::decide_next(Job& job) {
  order::LiveEpoch& live = *job.live;
  if (!live.settle(kShownAtOnce)) {
    s_.alarms.set(s_.now, {AlarmKind::look_at_job, job.index.value, job.serial});
    return false;
  }
  const GrowingSource& source = *s_.datasets[job.dataset].source;
  const std::uint64_t most = live.records_most(source.first);
  const std::uint64_t there = source.end - live.next();
  if (there < most && source.ended) {
    live.end(there);
    return true;
  }
  if (there < most) {
    if (job.runs.back().first_step + live.steps() != job.committed_step) return false;
    job.short_since = std::min(job.short_since, s_.now);
    const std::uint64_t least = job.fills_cut ? job.ranks.size() : 0;
    // A fill that is cut only stands for a missing record, so it may be any record that is there.
    if (there < least || !live.can_fill(source.first, job.fills_cut ? there : 0)) return false;
    const Instant due = after(job.short_since, job.fills_after);
    if (s_.now < due) {
      s_.ask_again(due, job.fills_at, {AlarmKind::look_at_job, job.index.value, job.serial});
      return false;
    }
  }
  live.decide(std::min(there, most), source.first);
  job.short_since = kNever;
  const std::uint64_t left = source.end - live.next();
  const bool is_tail = left < live.records_most(source.first);
  if (source.ended && (left == 0 || (job.drop_last && is_tail))) live.end(left);
  return true;
}

// ------------------------------------------------------------------------------------- all ----

bool DrawnEpochs::is_decided(const Job& job, order::BlockRef block) const {
  if (!job.live && !job.keys) return true;
  const order::Lanes& lanes = *s_.streams[job.stream].lanes;
  const order::BlockName name = lanes.name(block);
  const order::LaneSizes& sizes = lanes.sizes(block);
  return job.drawn->has((sizes.first_block_of(name.lane) + name.block) * sizes.block_samples);
}

// A weighted epoch is drawn with the scores that have come by now, when the one before it is
// committed. So no step of an epoch is ever drawn from weights that are gone.
bool DrawnEpochs::begin_next(Job& job, std::uint32_t epoch) {
  if (job.weights) {
    if (!job.weights->settled() || !freeze(job)) return false;
    draw(job, epoch);
  }
  if (job.mixed) begin_mixed_epoch(job, epoch);
  if (job.keys) job.keys->begin_next_epoch();
  return true;
}

void DrawnEpochs::go_on(Job& job) {
  const order::Position& position = job.committed;
  if (job.mixed && job.mixed_epoch != position.epoch() && position.consumed() == 0)
    begin_mixed_epoch(job, position.epoch());
}

void DrawnEpochs::forget(Job& job, const EpochRun& run, std::uint64_t steps) {
  if (job.mixed && run.epoch == job.committed.epoch()) {
    const std::uint32_t block = s_.streams[job.stream].block_samples;
    job.mixed->forget(job.committed.consumed() / block * block);
  }
  if (&run != &job.runs.back()) return;  // `drawn` is of the last run
  if (job.live) job.live->forget(steps * job.live->step_samples());
  if (job.keys) job.keys->forget(steps);
}

}  // namespace batchflow::engine
