#include "core/engine/engine.h"

#include "core/base/config_value.h"

#include <algorithm>
#include <variant>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/datasets.h"
#include "core/engine/delivery.h"
#include "core/engine/describe.h"
#include "core/engine/dispatching.h"
#include "core/engine/explained.h"
#include "core/engine/grants.h"
#include "core/engine/items.h"
#include "core/engine/listed.h"
#include "core/engine/membership.h"
#include "core/engine/nodes.h"
#include "core/engine/preparation.h"
#include "core/engine/reads.h"
#include "core/engine/reserves.h"
#include "core/engine/state.h"
#include "core/engine/streams.h"

namespace batchflow::engine {

namespace {

// The most that one step does of work that can wait: evictions when a share shrinks, residents
// shown to a new policy.
constexpr std::size_t kSlice = 2048;
// The same for memory of policies and shares that are gone.
constexpr std::size_t kBytesGivenBack = std::size_t{4} << 20;
// The most draws whose samples one step looks up for batches.
constexpr std::size_t kDrawsAStep = 2048;

}  // namespace

struct Engine::Parts final : Reads::Listener {
  Parts(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
        Explain told)
      : explain(std::move(told)),
        s(config, policies, catalogues, explain),
        selection_choice(policies.choose(PolicyKind::selection, config.policies.selection)),
        dispatch_choice(policies.choose(PolicyKind::dispatch, config.policies.dispatch)),
        scaling_choice(policies.choose(PolicyKind::scaling, config.policies.scaling)),
        reads(s, *this),
        items(s, reads),
        datasets(s, items),
        charges(s),
        workers(s),
        suspects(s, reads, items),
        block_parts(s, reads, items, suspects),
        second_workers(s, reads, workers),
        preparation(s, reads, items, charges, workers, suspects, block_parts, second_workers),
        grants(s, make<MakeSelection, SelectionPolicy>(selection_choice, s.random.split(2))),
        assembly(s, grants),
        commits(s, grants),
        delivery(s, reads, assembly, commits),
        listed(s, items, reads),
        dispatching(s, grants, charges, preparation,
                    make<MakeDispatch, DispatchPolicy>(dispatch_choice, s.random.split(3)),
                    make<MakeScaling, ScalingPolicy>(scaling_choice, s.random.split(4))),
        streams(s, items, preparation, assembly),
        reserves(s, streams),
        membership(s, items, charges, preparation, grants, commits, delivery, dispatching, streams,
                   reserves),
        nodes(s, items, preparation, streams, membership) {}

  template <class Make, class Policy>
  std::unique_ptr<Policy> make(const PolicyChoice& choice, Random random) const {
    return explained(explain, choice,
                     std::get<Make>(choice.entry->make)({random, choice.parameters}));
  }

  // ---- Reads::Listener
  void making_ready(MakingIndex making) override { preparation.making_ready(making); }
  void making_failed(MakingIndex making, std::optional<Refusal> why) override {
    preparation.making_failed(making, why);
  }
  void listed_ready(BatchIndex batch) override { listed.ready(batch); }
  void listed_failed(BatchIndex batch, std::optional<Refusal> why) override {
    listed.failed(batch, why);
  }

  // ---- events
  Job* job(JobId id) {
    const std::uint32_t found = s.job_of.find(id.value);
    if (found != kNone) return &s.jobs[found];
    const auto& refused = s.refused_joins;
    if (std::find(refused.begin(), refused.end(), id) != refused.end()) {
      s.stale();
    } else {
      s.protocol_error();
    }
    return nullptr;
  }
  void on(const CatalogueKnown& event) { datasets.known(event); }
  void on(const PipelineKnown& event) { datasets.known(event); }
  void on(const JobJoined& event) { membership.joined(event); }
  void on(const JobLeft& event) {
    if (Job* of = job(event.job)) membership.left(*of);
  }
  void on(const RankLost& event) {
    if (Job* of = job(event.job)) membership.rank_lost(*of, event.rank);
  }
  void on(const JobResized& event) {
    if (Job* of = job(event.job)) membership.resized(*of, event);
  }
  void on(const BatchWanted& event) {
    Job* const of = job(event.job);
    if (!of) return;
    delivery.wanted(*of, event);
    membership.asked(*of);
  }
  void on(const SamplesWanted& event) {
    if (Job* of = job(event.job)) listed.wanted(*of, event);
  }
  void on(const BatchConsumed& event) {
    if (Job* of = job(event.job)) delivery.consumed(*of, event);
  }
  void on(const SlotReleased& event) {
    if (Job* of = job(event.job)) delivery.released(*of, event);
  }
  void on(const ScoresReported& event);
  void on(const ExemplarsReported& event);
  void on(const ReadDone& event) { reads.done(event); }
  void on(const PreparationDone& event) { preparation.prepared(event); }
  void on(const TransferDone& event) { assembly.transferred(event); }
  void on(const DeliveryDone& event) { delivery.delivered(event); }
  void on(const NodeJoined& event) { nodes.joined(event); }
  void on(const NodeQuiesced& event) { nodes.quiesced(event); }
  void on(const NodeLost& event) { nodes.lost(event); }
  void on(const WorkerJoined& event) {
    preparation.joined(event);
    nodes.worker_joined(event.node);
  }
  void on(const WorkerQuiesced& event) {
    preparation.quiesced(event);
    streams.workers_gone();
  }
  void on(const WorkerLost& event) {
    preparation.lost(event);
    streams.workers_gone();
  }
  void on(const CapacityChanged& event) { nodes.capacity_changed(event); }
  void on(const DecodedMeasured& event) { datasets.measured(event); }
  void on(const DatasetKept& event) { datasets.kept(event); }
  void on(const PolicyChanged& event);
  void on(const ConfigurationChanged& event);
  void on(const TimerFired&) {}  // what is due is done in any step

  // ---- a step
  void handle_alarms();
  void handle_failures();
  void change_policy(const PolicyName& name, const PolicyChoice& choice);
  void decide();
  void look_at_dirty();
  void refresh_needs();
  void settle_weights();

  UnhurriedMemory memory;
  const Explain explain;  // policies refer to it
  EngineState s;
  PolicyChoice selection_choice;  // policies refer to their parameters
  PolicyChoice dispatch_choice;
  PolicyChoice scaling_choice;
  Reads reads;
  Items items;
  Datasets datasets;
  Charges charges;
  Workers workers;
  Suspects suspects;
  BlockParts block_parts;
  SecondWorkers second_workers;
  Preparation preparation;
  Grants grants;
  Assembly assembly;
  Commits commits;
  Delivery delivery;
  Listed listed;
  Dispatching dispatching;
  Streams streams;
  Reserves reserves;
  Membership membership;
  Nodes nodes;
  std::uint64_t operations = 0;
  std::size_t needs_reported = 0;   // in this step
  std::uint64_t policies_made = 4;  // each has a stream of chance of its own
};

// ------------------------------------------------------------------------------------ events ----

void Engine::Parts::on(const ScoresReported& event) {
  Job* of = job(event.job);
  if (!of) return;
  if (event.scores.size() > kScoresMost) return s.protocol_error();
  const Dataset& dataset = s.datasets[of->dataset];
  for (const Score& score : event.scores) {
    if (score.sample.value >= dataset.catalogue->samples()) {
      s.protocol_error();
    } else {
      items.scored(dataset.id, score.sample, score.value);
      if (of->weights) of->weights->report(score.sample, order::weight_of_score(score.value));
    }
  }
}

void Engine::Parts::on(const ExemplarsReported& event) {
  Job* of = job(event.job);
  if (!of) return;
  const std::uint64_t samples = s.datasets[of->dataset].catalogue->samples();
  const bool known = std::all_of(event.samples.begin(), event.samples.end(),
                                 [&](SampleId sample) { return sample.value < samples; });
  if (of->rehearsed == 0 || !known || event.samples.size() > kExemplarsAtOnce ||
      !of->exemplars.report(event.anew, event.first, event.samples, event.more)) {
    s.protocol_error();
  }
}

void Engine::Parts::change_policy(const PolicyName& name, const PolicyChoice& choice) {
  switch (name.kind) {
    case PolicyKind::allocation:
      return s.memory.change_allocation(choice);
    case PolicyKind::eviction:
      for (const Form form : name.forms) s.memory.change_eviction(choice, form);
      return;
    case PolicyKind::selection:
      selection_choice = choice;
      return grants.change_selection(
          make<MakeSelection, SelectionPolicy>(selection_choice, s.random.split(++policies_made)));
    case PolicyKind::dispatch:
      dispatch_choice = choice;
      return dispatching.change_dispatch(
          make<MakeDispatch, DispatchPolicy>(dispatch_choice, s.random.split(++policies_made)));
    case PolicyKind::scaling:
      scaling_choice = choice;
      return dispatching.change_scaling(
          make<MakeScaling, ScalingPolicy>(scaling_choice, s.random.split(++policies_made)));
  }
}

void Engine::Parts::on(const PolicyChanged& event) {
  const std::size_t equals = event.text.find('=');
  const std::string_view kind = event.text.substr(0, equals);
  const std::string_view text =
      equals == std::string_view::npos ? "" : event.text.substr(equals + 1);
  try {
    const PolicyName name = policy_name(kind);
    change_policy(name, s.list.choose(name.kind, text));
  } catch (const ConfigError&) {
    return s.protocol_error();  // the backend checks texts before it sends them
  }
  s.room_everywhere();  // what the old policy held back is offered to the new one
  for (std::uint32_t index = 0; index < s.jobs.size(); ++index) s.touch(index);
}

void Engine::Parts::on(const ConfigurationChanged& event) {
  try {
    change_setting(s.config, event.text);
  } catch (const ConfigError&) {
    s.protocol_error();
  }
}

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
        preparation.look_for_late(alarm->subject);
        break;
      case AlarmKind::rank_timeout:
        membership.timed_out(alarm->subject, alarm->serial);
        break;
      case AlarmKind::stranded:
        membership.still_stranded(alarm->subject, alarm->serial);
        break;
      case AlarmKind::ask_dispatch:
        s.room_changed = true;
        break;
      case AlarmKind::look_at_job:
        if (s.jobs.live(alarm->subject) && s.jobs[alarm->subject].serial == alarm->serial) {
          s.touch(alarm->subject);
        }
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
    const std::vector<std::uint32_t> jobs = s.streams[failure.stream].jobs;
    for (const std::uint32_t index : jobs) {
      membership.refuse(s.jobs[index], failure.why, failure.needed, failure.available);
    }
  }
  preparation.failures.clear();
  const std::vector<std::uint32_t> weighted = s.weighted_jobs;
  for (const std::uint32_t index : weighted) {
    if (s.jobs[index].to_refuse == Refusal::nothing_to_draw) {
      membership.refuse(s.jobs[index], Refusal::nothing_to_draw, 0, 0);
    }
  }
  for (const std::uint32_t index : s.contradicting_jobs) {
    if (s.jobs.live(index) && s.jobs[index].to_refuse == Refusal::bad_position) {
      membership.refuse(s.jobs[index], Refusal::bad_position, 0, 0);
    }
  }
  s.contradicting_jobs.clear();
  listed.refuse_failed([&](Job& job, Refusal why) { membership.refuse(job, why, 0, 0); });
}

void Engine::Parts::look_at_dirty() {
  for (std::size_t i = 0; i < s.dirty.size(); ++i) {
    const std::uint32_t index = s.dirty[i];
    if (!s.jobs.live(index)) continue;
    ++operations;
    Job& of = s.jobs[index];
    of.dirty = false;
    assembly.pump(of);
    dispatching.review(of);
  }
  s.dirty.clear();
}

// Tells policies how many jobs need which block, a slice in each step: a lane that is joined or
// left changes all of its blocks, and an epoch that begins changes those of all lanes.
void Engine::Parts::refresh_needs() {
  while (!s.changed_streams.empty() && needs_reported < kSlice / 2) {
    const std::uint32_t index = s.changed_streams.back();
    if (s.streams.live(index) && s.streams[index].lanes) {
      order::Lanes& lanes = *s.streams[index].lanes;
      const bool all =
          lanes.visit_changed_needs(kSlice / 2 - needs_reported, [&](order::BlockRef block) {
            ++needs_reported;
            if (lanes.state(block) == order::BlockState::resident) report_need(s, lanes.tag(block));
          });
      if (!all) break;
      s.streams[index].needs_changed = false;
    }
    s.changed_streams.pop_back();
  }
  if (!s.changed_streams.empty()) s.alarms.set(s.now, {});
}

// Copies scores for the epochs to come, a slice in each step.
void Engine::Parts::settle_weights() {
  for (const std::uint32_t index : s.weighted_jobs) {
    Job& of = s.jobs[index];
    if (of.weights->settled()) continue;
    if (of.weights->settle(kSlice / 4)) s.touch(index);
    s.alarms.set(s.now, {});
  }
}

void Engine::Parts::decide() {
  needs_reported = 0;
  membership.make_way();
  for (bool more = true; more;) {
    block_parts.plan_staging();
    s.memory.plan_now(s.now);
    charges.strip_ahead(s.memory.take_planned());
    bool shrinking = s.memory.settle(s.now, kSlice, s.evicted);
    drop_evicted(s);
    items.close_unused(s.memory.take_unused());
    for (const Place& place : s.memory.take_grown()) {
      s.room_on(place.node);
      if (place.tier == Tier::dram) s.staging_changed(s.node_of.at(place.node.value));
    }
    if (shrinking) s.alarms.set(s.now, {});
    more = membership.settle();
    // A job that has come has memory before anything is started for it.
    if (s.memory.plan_due()) {
      more = true;
      continue;
    }
    look_at_dirty();
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
      for (std::uint32_t index = 0; index < s.jobs.size(); ++index) {
        if (s.jobs.live(index) && s.jobs[index].is_waiting()) s.touch(index);
      }
    }
    more = more || !s.dirty.empty() || s.room_changed;
  }
  refresh_needs();
  operations += needs_reported;
  settle_weights();
  std::vector<Resident> adopted;
  if (s.memory.adopt(kSlice, adopted)) s.alarms.set(s.now, {});
  for (const Resident& one : adopted) {
    if (one.owner != kNone) report_need(s, one.owner);
  }
}

// ------------------------------------------------------------------------------------ Engine ----

Engine::Engine(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
               Explain explain)
    : parts_(std::make_unique<Parts>(config, policies, catalogues, std::move(explain))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

std::span<const Command> Engine::step(Instant now, std::span<const Event> events) {
  Parts& p = *parts_;
  const UnhurriedMemory::Scope scope(p.memory);
  p.s.arena.clear();
  p.s.commands.clear();
  p.s.promises.clear();
  p.s.refused_joins.clear();
  if (now > p.s.now) p.s.now = now;
  p.s.samples_gathered = 0;
  p.s.draws_left = kDrawsAStep;
  p.s.lent.clear();
  p.s.room_changed = p.s.room_changed || std::exchange(p.s.starts_put_off, false);
  p.streams.begin_step();
  p.membership.begin_step();
  for (const Event& event : events) {
    std::visit([&](const auto& fact) { p.on(fact); }, event);
  }
  p.handle_alarms();
  p.handle_failures();
  p.dispatching.scale();
  p.decide();
  p.handle_failures();
  if (!p.memory.give_back(kBytesGivenBack)) p.s.alarms.set(p.s.now, {});
  if (const auto timer = p.s.alarms.timer_to_set(p.s.now)) p.s.order(*timer);
  return p.s.commands;
}

std::span<const Promise> Engine::promises() const {
  return parts_->s.promises.all();
}

EngineCounters Engine::counters() const {
  EngineCounters counters = parts_->s.counters;
  const Memory::Counters memory = parts_->s.memory.counters();
  counters.refused_proposals = memory.refused_allocations + memory.refused_evictions +
                               parts_->grants.refused() + parts_->dispatching.refused();
  counters.operations = parts_->operations;
  counters.node_slots = parts_->s.nodes.size();
  counters.worker_slots = parts_->s.workers.size();
  return counters;
}

std::string Engine::describe() const {
  return engine::describe(parts_->s);
}

void Engine::check_consistency() const {
  parts_->s.memory.check_consistency();
  for (const Node& node : parts_->s.nodes) {
    const StagingPart& staging = parts_->s.memory.staging(dram_of(node.id));
    BF_CHECK(node.lost || !parts_->s.config.count_staging || staging.used <= staging.granted);
  }
  parts_->dispatching.check_consistency();
  for (std::uint32_t index = 0; index < parts_->s.streams.size(); ++index) {
    if (parts_->s.streams.live(index)) parts_->s.streams[index].lanes->check_consistency();
  }
  if (!parts_->s.changed_streams.empty()) return;  // there is more to tell
  for (std::uint32_t index = 0; index < parts_->s.blocks.size(); ++index) {
    if (!parts_->s.blocks.live(index) || !parts_->s.blocks[index].resident) continue;
    const Block& block = parts_->s.blocks[index];
    BF_CHECK_MSG(block.reported_need == need_of(parts_->s, block),
                 "a policy does not know who needs a block");
  }
}

}  // namespace batchflow::engine
