// The parts of the engine, and which of them is told of which event.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "core/base/zeroed_memory.h"
#include "core/engine/assembly.h"
#include "core/engine/block_parts.h"
#include "core/engine/block_selection.h"
#include "core/engine/charges.h"
#include "core/engine/commits.h"
#include "core/engine/datasets.h"
#include "core/engine/delivery.h"
#include "core/engine/dispatching.h"
#include "core/engine/drawn_epochs.h"
#include "core/engine/early_reads.h"
#include "core/engine/engine.h"
#include "core/engine/explain.h"
#include "core/engine/facts.h"
#include "core/engine/grants.h"
#include "core/engine/growing_sources.h"
#include "core/engine/hand_over.h"
#include "core/engine/item_shares.h"
#include "core/engine/items.h"
#include "core/engine/kept_before.h"
#include "core/engine/kept_items.h"
#include "core/engine/listed.h"
#include "core/engine/membership.h"
#include "core/engine/mixture_weights.h"
#include "core/engine/nodes.h"
#include "core/engine/preparation.h"
#include "core/engine/reads.h"
#include "core/engine/reserves.h"
#include "core/engine/second_workers.h"
#include "core/engine/state.h"
#include "core/engine/streams.h"
#include "core/engine/suspects.h"
#include "core/engine/workers.h"

namespace batchflow::engine {

struct Engine::Parts final : Reads::Listener {
  Parts(const EngineConfig& config, const PolicyList& policies, const Catalogues& catalogues,
        Explain explanation)
      : explain(std::move(explanation)),
        s(config, policies, catalogues, explain),
        selection_choice(policies.choose(PolicyKind::selection, config.policies.selection)),
        dispatch_choice(policies.choose(PolicyKind::dispatch, config.policies.dispatch)),
        scaling_choice(policies.choose(PolicyKind::scaling, config.policies.scaling)),
        reads(s, *this),
        item_shares(s),
        items(s, item_shares, reads),
        kept_items(s, item_shares, reads),
        early_reads(s, reads, item_shares),
        node_ends(s, reads, item_shares),
        kept_before(s, item_shares),
        facts(s, item_shares),
        datasets(s, item_shares),
        growing(s),
        charges(s),
        workers(s),
        suspects(s, reads, item_shares, items),
        block_parts(s, reads, items, kept_items, suspects),
        second_workers(s, reads, workers),
        selection(s, kept_items, make<MakeSelection>(selection_choice, s.random.split(2))),
        preparation(s, reads, items, kept_items, charges, workers, suspects, block_parts,
                    second_workers, selection),
        drawn_epochs(s),
        grants(s, selection, drawn_epochs),
        assembly(s, grants),
        commits(s, grants),
        delivery(s, reads, assembly, commits),
        listed(s, item_shares, reads),
        dispatching(s, item_shares, drawn_epochs, grants, charges, preparation,
                    make<MakeDispatch>(dispatch_choice, s.random.split(3)),
                    make<MakeScaling>(scaling_choice, s.random.split(4))),
        streams(s, item_shares, preparation, assembly),
        reserves(s, streams),
        mixture_weights(s),
        membership(s, item_shares, charges, preparation, drawn_epochs, grants, commits, delivery,
                   dispatching, streams, reserves, mixture_weights),
        nodes(s, item_shares, preparation, streams, membership) {
    s.memory.complete_views_with(
        [this](PlaceView& place, std::span<ShareView> views, const Allocation::Shares& shares) {
          facts.complete(place, views, shares);
        });
  }

  template <class Make>
  Made<Make> make(const PolicyChoice& choice, Random random) const {
    return explained(explain, choice, choice.make<Make>(random));
  }
  // The policy that takes over from `last`; `choice` becomes `next`.
  template <class Make>
  Made<Make> make_next(PolicyChoice& choice, const Policy& last, const PolicyChoice& next) {
    const PolicyChoice before = std::exchange(choice, next);
    auto policy = make<Make>(choice, s.random.split(++policies_made));
    hand_over(before, last, choice, *policy);
    return policy;
  }

  // ---- Reads::Listener
  void making_ready(MakingIndex making) override { preparation.making_ready(making); }
  void making_failed(MakingIndex making, std::optional<Refusal> why) override {
    preparation.making_failed(making, why);
  }
  void listed_ready(BatchIndex batch) override { listed.ready(batch); }
  void listed_failed(BatchIndex batch, ReadIndex read, std::optional<Refusal> why) override {
    listed.failed(batch, read, why);
  }

  // ---- events
  Job* job(JobId id) {
    const JobIndex found = s.job_of.find(id);
    if (!found.is_none()) return &s.jobs[found];
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
    if (Job* live_job = job(event.job)) membership.left(*live_job);
  }
  void on(const RankLost& event) {
    if (Job* live_job = job(event.job)) membership.rank_lost(*live_job, event.rank);
  }
  void on(const JobResized& event) {
    if (Job* live_job = job(event.job)) membership.resized(*live_job, event);
  }
  void on(const BatchWanted& event) {
    Job* const live_job = job(event.job);
    if (!live_job) return;
    delivery.wanted(*live_job, event);
    membership.draw_when_all_ask(*live_job);
  }
  void on(const SamplesWanted& event) {
    Job* const live_job = job(event.job);
    if (!live_job) return;
    if (!live_job->keyed) return listed.wanted(*live_job, event);
    if (live_job->state != Job::State::running) return s.stale();
    const bool is_plain = event.rank == 0 && event.next_uses.empty() && event.sizes.empty();
    if (!is_plain || !drawn_epochs.ask(*live_job, event.samples)) s.protocol_error();
  }
  void on(const BatchConsumed& event) {
    if (Job* live_job = job(event.job)) delivery.consumed(*live_job, event);
  }
  void on(const SlotReleased& event) {
    if (Job* live_job = job(event.job)) delivery.released(*live_job, event);
  }
  void on(const ScoresReported& event);
  void on(const ExemplarsReported& event);
  void on(const ReadDone& event) { reads.done(event); }
  void on(const PreparationDone& event) { preparation.prepared(event); }
  void on(const TransferDone& event) { assembly.transferred(event); }
  void on(const DeliveryDone& event) { delivery.delivered(event); }
  void on(const NodeJoined& event) { nodes.joined(event); }
  void on(const NodeQuiesced& event) {
    if (const NodeIndex node = nodes.quiesced(event); !node.is_none()) node_ends.begin(node);
  }
  void on(const NodeLost& event) {
    const NodeIndex node = nodes.lost(event);
    if (node.is_none()) return;
    node_ends.forget(node);
    kept_before.forget(node);
  }
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
  void on(const MixtureChanged& event) {
    if (Job* live_job = job(event.job)) mixture_weights.changed(*live_job, event);
  }
  void on(const LossesReported& event) {
    if (Job* live_job = job(event.job)) mixture_weights.losses_reported(*live_job, event);
  }
  void on(const SamplesKept& event) { kept_before.kept(event); }
  void on(const SamplesDescribed& event);
  void on(const BufferPromised& event);
  void on(const SourceGrew& event) { growing.grew(event); }

  // ---- a step
  void handle_alarms();
  void handle_failures();
  void change_policy(const PolicyName& name, const PolicyChoice& choice);
  bool change_policy(const PolicyName& name, const PolicyChoice& choice, std::uint32_t only);
  void decide();
  void look_at(JobIndex index, std::uint64_t serial) {
    if (s.jobs.live(index) && s.jobs[index].serial == serial) s.look_at(index);
  }
  void look_at_jobs();
  void refresh_needs();
  void settle_weights();

  UnhurriedMemory unhurried;
  const Explain explain;  // policies refer to it
  EngineState s;
  PolicyChoice selection_choice;  // policies refer to their parameters
  PolicyChoice dispatch_choice;
  PolicyChoice scaling_choice;
  Reads reads;
  ItemShares item_shares;
  Items items;
  KeptItems kept_items;
  EarlyReads early_reads;
  HandOver node_ends;
  KeptBefore kept_before;
  Facts facts;
  Datasets datasets;
  GrowingSources growing;
  Charges charges;
  Workers workers;
  Suspects suspects;
  BlockParts block_parts;
  SecondWorkers second_workers;
  BlockSelection selection;
  Preparation preparation;
  DrawnEpochs drawn_epochs;
  Grants grants;
  Assembly assembly;
  Commits commits;
  Delivery delivery;
  Listed listed;
  Dispatching dispatching;
  Streams streams;
  Reserves reserves;
  MixtureWeights mixture_weights;
  Membership membership;
  Nodes nodes;
  Instant asks_allocation_at{};
  std::uint64_t operations = 0;
  std::size_t needs_reported = 0;   // in this step
  std::uint64_t policies_made = 4;  // each has a stream of chance of its own
};

}  // namespace batchflow::engine
