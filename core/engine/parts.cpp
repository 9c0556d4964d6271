#include "core/engine/parts.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "core/base/config_value.h"
#include "core/engine/books.h"

namespace batchflow::engine {

namespace {

// The most that one step does of work that can wait: residents shown to a new policy, needs told,
// scores copied.
constexpr std::size_t kWorkAStep = 2048;
// The same for evictions when a share shrinks.
constexpr std::size_t kEvictedAStep = 512;

}  // namespace

// ------------------------------------------------------------------------------------ a step ----

void Engine::Parts::handle_alarms() {
  while (const auto alarm = s.alarms.next_due(s.now)) {
    switch (alarm->kind) {
      case AlarmKind::retry_read:
        reads.retry(ReadIndex(alarm->subject), alarm->serial);
        break;
      case AlarmKind::retry_prepare:
        preparation.retry(MakingIndex(alarm->subject), alarm->serial);
        break;
      case AlarmKind::late_prepare:
        preparation.look_for_late(StreamId(alarm->subject));
        break;
      case AlarmKind::rank_timeout:
        membership.timed_out(JobIndex(alarm->subject), alarm->serial);
        break;
      case AlarmKind::stranded:
        membership.still_stranded(StreamId(alarm->subject), alarm->serial);
        break;
      case AlarmKind::ask_allocation:
        s.memory.wake(s.now);
        break;
      case AlarmKind::ask_dispatch:
        s.room_changed = true;
        break;
      case AlarmKind::look_at_job:
        look_at(JobIndex(alarm->subject), alarm->serial);
        break;
      case AlarmKind::go_on:
        break;
    }
  }
}

// What cannot be made ends the jobs that need it.
void Engine::Parts::handle_failures() {
  for (std::size_t i = 0; i < preparation.failures.size(); ++i) {
    const StreamFailure failure = preparation.failures[i];
    if (!s.streams.live(failure.stream)) continue;
    const std::vector<JobIndex> jobs = s.streams[failure.stream].jobs;
    for (const JobIndex index : jobs) {
      membership.refuse(s.jobs[index], failure.why, failure.needed, failure.available);
    }
  }
  preparation.failures.clear();
  const std::vector<JobIndex> weighted = s.weighted_jobs;
  for (const JobIndex index : weighted) {
    if (s.jobs[index].to_refuse == Refusal::nothing_to_draw) {
      membership.refuse(s.jobs[index], Refusal::nothing_to_draw, 0, 0);
    }
  }
  for (const JobIndex index : s.contradicting_jobs) {
    if (s.jobs.live(index) && s.jobs[index].to_refuse == Refusal::bad_position) {
      membership.refuse(s.jobs[index], Refusal::bad_position, 0, 0);
    }
  }
  s.contradicting_jobs.clear();
  listed.refuse_failed([&](Job& job, Refusal why) { membership.refuse(job, why, 0, 0); });
  listed.look_again();
}

void Engine::Parts::look_at_jobs() {
  for (std::size_t i = 0; i < s.jobs_to_look_at.size(); ++i) {
    const JobIndex index = s.jobs_to_look_at[i];
    if (!s.jobs.live(index)) continue;
    ++operations;
    Job& job = s.jobs[index];
    job.to_look_at = false;
    assembly.pump(job);
    // That a source has ended may turn out when all that it had is committed.
    if (job.state == Job::State::running && DrawnEpochs::is_at_end(job)) commits.end_epochs(job);
    dispatching.review(job);
  }
  s.jobs_to_look_at.clear();
}

// Tells policies how many jobs a block is still good for, some blocks in each step: a lane that is
// joined or left changes all of its blocks, and an epoch that begins changes those of all lanes.
void Engine::Parts::refresh_needs() {
  while (!s.changed_streams.empty() && needs_reported < kWorkAStep / 2) {
    const StreamId index = s.changed_streams.back();
    if (s.streams.live(index) && s.streams[index].lanes) {
      order::Lanes& lanes = *s.streams[index].lanes;
      const bool all =
          lanes.visit_changed_needs(kWorkAStep / 2 - needs_reported, [&](order::BlockRef block) {
            ++needs_reported;
            if (lanes.state(block) == order::BlockState::resident)
              report_takers(s, BlockIndex(lanes.tag(block)));
          });
      if (!all) break;
      s.streams[index].needs_changed = false;
    }
    s.changed_streams.pop_back();
  }
  if (!s.changed_streams.empty()) s.alarms.set(s.now, {});
}

// Copies scores for the epochs to come, and finds the orders of mixtures, some in each step.
void Engine::Parts::settle_weights() {
  for (const JobIndex index : s.weighted_jobs) {
    Job& job = s.jobs[index];
    if (job.weights->settled()) continue;
    if (job.weights->settle(kWorkAStep / 4)) s.look_at(index);
    s.alarms.set(s.now, {});
  }
  membership.settle_mixtures(order::Permutation::kTableMost);
}

void Engine::Parts::decide() {
  needs_reported = 0;
  membership.make_way();
  for (bool more = true; more;) {
    block_parts.plan_staging();
    s.memory.plan_now(s.now);
    charges.strip_ahead(s.memory.take_planned());
    bool shrinking = s.memory.settle(s.now, kEvictedAStep, s.evicted);
    drop_evicted(s);
    item_shares.close_unused(s.memory.take_unused());
    for (const Place& place : s.memory.take_grown()) {
      s.room_on(place.node);
      if (place.tier == Tier::dram) s.staging_changed(s.node_of.at(place.node));
    }
    if (shrinking) s.alarms.set(s.now, {});
    more = membership.settle();
    // A job that has come has memory before anything is started for it.
    if (s.memory.plan_due()) {
      more = true;
      continue;
    }
    const bool more_comes_in = kept_before.go_on();
    if (s.memory.plan_due()) {
      more = true;
      continue;
    }
    if (more_comes_in) break;
    look_at_jobs();
    refresh_needs();
    // Makings that began before come first.
    more = block_parts.stage_waiting() || more;
    if (s.room_changed) {
      s.room_changed = false;
      more = dispatching.start_some() || more;
    }
    more = charges.settle_current() || more;
    if (s.short_of_memory && (more || s.room_changed)) {
      // A batch waits for a slot, and something has become free.
      s.short_of_memory = false;
      s.jobs.each([&](JobIndex index) {
        if (s.jobs[index].is_waiting()) s.look_at(index);
      });
    }
    more = more || !s.jobs_to_look_at.empty() || !s.moving_jobs.empty() || s.room_changed;
  }
  for (const EngineState::BegunEpoch& begun : s.begun_epochs) {
    if (!s.jobs.live(begun.job)) continue;
    item_shares.epoch_began(s.jobs[begun.job], begun.epoch);
    selection.epoch_began(s.jobs[begun.job], begun.epoch);
  }
  s.begun_epochs.clear();
  // Without jobs nothing changes that a policy could learn from.
  if (s.job_of.size() > 0)
    s.ask_again(s.memory.asks_next(), asks_allocation_at, {AlarmKind::ask_allocation});
  refresh_needs();
  operations += needs_reported;
  settle_weights();
  early_reads.go_on();
  node_ends.go_on();
  growing.pace();
  std::vector<Resident> adopted;
  if (s.memory.eviction().adopt(kWorkAStep, adopted)) s.alarms.set(s.now, {});
  for (const Resident& one : adopted) {
    if (!one.owner.is_none()) report_takers(s, one.owner);
  }
}

// ---------------------------------------------------------- events that concern several parts ----

void Engine::Parts::on(const ScoresReported& event) {
  Job* live_job = job(event.job);
  if (!live_job) return;
  if (event.scores.size() > kScoresMost) return s.protocol_error();
  const Dataset& dataset = s.datasets[live_job->dataset];
  const std::span<const float> weights = selection.weigh(*live_job, event.scores);
  for (std::size_t i = 0; i < event.scores.size(); ++i) {
    const SampleId sample = event.scores[i].sample;
    if (sample.value >= dataset.catalogue->samples()) {
      s.protocol_error();
      continue;
    }
    item_shares.scored(dataset.id, sample, weights[i]);
    if (live_job->weights) live_job->weights->report(sample, order::weight_of_score(weights[i]));
    if (live_job->buffer && std::isfinite(event.scores[i].value))
      live_job->buffer->score(sample, event.scores[i].value);
  }
}

// What is taken over is promised again, so that the promises of this engine stand alone.
void Engine::Parts::on(const BufferPromised& event) {
  const BufferName name{event.buffer, event.version};
  if (!s.buffers.promised(event)) {
    s.protocol_error();
    // A buffer that jobs have stays as it is.
    if (s.buffers.all().count(name) == 0) s.promise_buffer_gone(name);
    return;
  }
  s.promise_buffer(s.buffers.all().at(name), event.exemplars.size());
}

void Engine::Parts::on(const SamplesDescribed& event) {
  Job* live_job = job(event.job);
  if (!live_job) return;
  const std::size_t count = event.samples.size();
  if (!live_job->buffer || count > kDescribedMost || event.features > kFeaturesMost ||
      event.values.size() != count * event.features ||
      (!event.labels.empty() && event.labels.size() != count))
    return s.protocol_error();
  const std::uint64_t samples = s.datasets[live_job->dataset].catalogue->samples();
  for (std::size_t i = 0; i < count; ++i) {
    const auto features = event.values.subspan(i * event.features, event.features);
    const bool are_numbers = std::all_of(features.begin(), features.end(),
                                         [](float value) { return std::isfinite(value); });
    if (event.samples[i].value >= samples || !are_numbers) {
      s.protocol_error();
      continue;
    }
    std::optional<std::uint32_t> label;
    if (!event.labels.empty() && event.labels[i] != kNoClass) label = event.labels[i];
    live_job->buffer->describe(event.samples[i], label, features);
  }
}

void Engine::Parts::on(const ExemplarsReported& event) {
  Job* live_job = job(event.job);
  if (!live_job) return;
  const std::uint64_t samples = s.datasets[live_job->dataset].catalogue->samples();
  const bool known = std::all_of(event.samples.begin(), event.samples.end(),
                                 [&](SampleId sample) { return sample.value < samples; });
  if (live_job->rehearsed == 0 || live_job->buffer || !order::may_rehearse(live_job->order) ||
      !known || event.samples.size() > kExemplarsAtOnce ||
      !live_job->exemplars.report(event.anew, event.first, event.samples, event.more)) {
    s.protocol_error();
  }
}

void Engine::Parts::change_policy(const PolicyName& name, const PolicyChoice& choice) {
  switch (name.kind) {
    case PolicyKind::allocation:
      return s.memory.change_allocation(choice);
    case PolicyKind::eviction:
      for (const std::size_t one : name.evictions) s.memory.eviction().change(choice, one);
      return;
    case PolicyKind::selection:
      return selection.change(
          make_next<MakeSelection>(selection_choice, selection.policy(), choice));
    case PolicyKind::dispatch:
      return dispatching.change_dispatch(
          make_next<MakeDispatch>(dispatch_choice, dispatching.dispatch_policy(), choice));
    case PolicyKind::scaling:
      return dispatching.change_scaling(
          make_next<MakeScaling>(scaling_choice, dispatching.scaling_policy(), choice));
    case PolicyKind::rehearsal:
    case PolicyKind::mixture:
      return s.protocol_error();  // each buffer and job keeps the policy that it was made with
  }
}

// Of one share or stream alone.
bool Engine::Parts::change_policy(const PolicyName& name, const PolicyChoice& choice,
                                  std::uint32_t only) {
  if (name.kind == PolicyKind::eviction) {
    const ShareId share(only);
    return std::any_of(name.evictions.begin(), name.evictions.end(), [&](std::size_t one) {
      return s.memory.eviction().change(choice, one, share);
    });
  }
  const StreamId stream(only);
  if (name.kind != PolicyKind::selection || !s.streams.live(stream)) return false;
  auto own = std::make_unique<OwnSelection>(choice, nullptr);
  own->policy = make<MakeSelection>(own->choice, s.random.split(++policies_made));
  s.streams[stream].own_selection = std::move(own);
  return true;
}

void Engine::Parts::on(const PolicyChanged& event) {
  try {
    const auto [kind, text] = split_policy(event.text);
    const PolicyScope scope = policy_scope(kind);
    const PolicyName name = policy_name(scope.name);
    const PolicyChoice choice = s.list.choose(name.kind, text);
    if (!scope.only) {
      change_policy(name, choice);
    } else if (!change_policy(name, choice, *scope.only)) {
      return s.stale();  // what it was meant for is no more
    }
  } catch (const ConfigError&) {
    return s.protocol_error();  // the backend checks texts before it sends them
  }
  s.room_everywhere();  // what the old policy held back is offered to the new one
  s.jobs.each([&](JobIndex index) { s.look_at(index); });
}

void Engine::Parts::on(const ConfigurationChanged& event) {
  const EngineConfig before = s.config;
  try {
    change_setting(s.config, event.text);
  } catch (const ConfigError&) {
    return s.protocol_error();
  }
  const auto sharing = [](const EngineConfig& config) {
    return std::tuple(config.share_streams, config.share_nodes, config.helper_nodes,
                      config.workers_per_rank, config.workers_held_during_reads);
  };
  if (sharing(before) == sharing(s.config)) return;
  if (before.share_nodes != s.config.share_nodes) item_shares.sharing_changed();
  streams.sharing_changed();
  s.room_everywhere();
  s.jobs.each([&](JobIndex index) { s.look_at(index); });
}

}  // namespace batchflow::engine
