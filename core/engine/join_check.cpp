#include "core/engine/join_check.h"

#include <optional>

#include "core/engine/books.h"
#include "core/engine/growing_sources.h"
#include "core/engine/mixture_weights.h"
#include "core/engine/seed_group.h"
#include "core/engine/streams.h"
#include "core/order/lane_sizes.h"
#include "core/order/rehearsal.h"

namespace batchflow::engine {
namespace {

// Whether a job can go on from there: its numbers must have room to grow, and its blocks must not
// be larger than any that are cut.
bool leaves_room(const order::Position& position) {
  constexpr std::uint32_t kEpochMost = 1u << 31;
  constexpr std::uint64_t kGenerationMost = order::LanePosition::kGenerationMost / 2;
  const order::LanePosition& lanes = position.lanes();
  return position.epoch() <= kEpochMost && lanes.generation <= kGenerationMost &&
         lanes.sizes.block_samples <= order::kBlockSamplesMost;
}

// A job that resumes with an order of its own keeps it. Streams may have been shared, or not, when
// it came first.
std::uint64_t seed_group(const EngineState& s, const JobJoined& event, bool chosen) {
  const bool own = !event.has_shuffle_seed && event.order == Order::weighted;
  if (event.position && (own || chosen)) return event.position->fields().seed;
  const Catalogue& catalogue = *s.datasets[s.dataset_of.at(event.dataset)].catalogue;
  return seed_group_of(event, catalogue.bundle_shift(), s.config.share_streams, chosen);
}

// A live job rehearses what fills its steps: the last records that it has had, or a reservoir.
bool may_fill(const JobJoined& event) {
  if (event.buffer_exemplars > 0) {
    return event.rehearsed > 0 && event.buffer == 0 && event.fills_from == 0 && !event.fills_cut;
  }
  return event.rehearsed == 0 || (event.fills_from > 0 && !event.fills_cut && event.buffer == 0);
}

// The log keeps exemplars of all reservoirs in one bounded room.
bool has_room_for(const EngineState& s, const Dataset& dataset, const order::ReservoirName& name) {
  std::uint64_t exemplars = name.most;
  for (const order::ReservoirName& other : reservoirs_of(s, dataset))
    if (other != name) exemplars += other.most;
  return exemplars <= exemplars_most(dataset.source->kept_most, dataset.catalogue->largest_bytes());
}

std::optional<Refusal> objection(const EngineState& s, const JobJoined& event, bool chosen) {
  const DatasetIndex dataset = s.dataset_of.find(event.dataset);
  if (dataset.is_none()) return Refusal::unknown_dataset;
  if (s.pipelines.count(event.pipeline.value) == 0) return Refusal::unknown_pipeline;
  if (event.ranks.empty() || event.batch_samples <= event.rehearsed) return Refusal::bad_request;
  if (s.job_of.has(event.job)) return Refusal::bad_request;
  for (const NodeId node : event.ranks) {
    const NodeIndex known = s.node_of.find(node);
    if (known.is_none() || !s.memory.has(dram_of(node))) return Refusal::bad_request;
  }
  if ((event.order == Order::mixed) != (event.position && event.position->fields().mixing))
    return event.order == Order::mixed ? Refusal::bad_request : Refusal::bad_position;
  if (!event.weights_policy.empty() && !MixtureWeights::may_follow(s, event))
    return Refusal::bad_request;
  const Catalogue& catalogue = *s.datasets[dataset].catalogue;
  const bool cuts_relaxed = event.order == Order::relaxed && !chosen;
  if (((event.node_local || event.runs) && !cuts_relaxed) ||
      (event.runs && !catalogue.has_bundles()) ||
      (event.rehearsed > 0 && !order::may_rehearse(event.order) && event.order != Order::live)) {
    return Refusal::wrong_order;
  }
  if (event.order == Order::live && !may_fill(event)) return Refusal::bad_request;
  const bool fits_keys = event.order == Order::live && event.ranks.size() == 1 &&
                         event.batch_samples == 1 && event.fills_from == 0 && !event.position;
  if (event.keyed && !fits_keys) return Refusal::bad_request;
  if (!event.keyed && (event.order == Order::live) != s.datasets[dataset].source.has_value())
    return Refusal::wrong_order;
  if (event.order == Order::live && event.batch_samples / Streams::planned_block_samples(s, event) >
                                        order::kLiveBlocksOfBatchMost)
    return Refusal::bad_request;
  const std::uint64_t samples = catalogue.samples();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  if (event.order == Order::weighted &&
      (samples > order::kWeightedSamplesMost || event.draws > order::kWeightedSamplesMost)) {
    return Refusal::bad_request;
  }
  // An epoch without a step would end again and again, for ever.
  const std::uint64_t epoch = epoch_samples_of(event, catalogue, event.position);
  if (event.drop_last && step > epoch) return Refusal::bad_request;
  return std::nullopt;
}

// A job that joins with a position goes on there, if that is of this dataset and seed.
std::optional<Refuse> position_objection(const JobJoined& event, const Dataset& dataset,
                                         std::uint64_t seed) {
  const order::Position& position = *event.position;
  const Digest version = dataset.catalogue->version();
  const auto bad = [&](std::uint64_t needed, std::uint64_t available) {
    return Refuse{event.job, Refusal::bad_position, needed, available};
  };
  if (!position.mismatch(version, dataset.catalogue->samples(), seed).empty() ||
      position.order() != event.order || !leaves_room(position)) {
    const order::Position::Fields& theirs = position.fields();
    return theirs.dataset_version != version ? bad(theirs.dataset_version, version)
                                             : bad(theirs.seed, seed);
  }
  if (!dataset.source) return std::nullopt;
  // What comes next may be gone. It cannot be a record that never was.
  const std::uint64_t next = position.next_record();
  if (next < dataset.source->first) return bad(next, dataset.source->first);
  if (next > dataset.source->end) return bad(next, dataset.source->end);
  return std::nullopt;
}

}  // namespace

std::variant<JoinsAs, Refuse> check_join(const EngineState& s, const JobJoined& event,
                                         bool policy_chooses) {
  // A job that resumes goes on as it began, whatever the policy is now.
  const bool chosen = event.position ? event.position->is_chosen() : policy_chooses;
  if (const auto why = objection(s, event, chosen)) return Refuse{event.job, *why};
  const Digest pipeline = s.pipelines.at(event.pipeline.value)->hash;
  if (event.pipeline_hash != 0 && event.pipeline_hash != pipeline)
    return Refuse{event.job, Refusal::unknown_pipeline, event.pipeline_hash, pipeline};
  const Dataset& dataset = s.datasets[s.dataset_of.at(event.dataset)];
  const std::uint64_t seed = seed_group(s, event, chosen);
  const Digest version = dataset.catalogue->version();
  const std::uint64_t samples = dataset.catalogue->samples();
  JoinsAs as{chosen, order::Position(event.order, version, samples, seed)};
  if (chosen) as.position = order::Position::chosen(version, samples, seed);
  if (dataset.source)
    as.position = order::Position::live(version, samples, seed, dataset.source->first);
  if (event.position) {
    if (const auto refuse = position_objection(event, dataset, seed)) return *refuse;
    as.position = *event.position;
  }
  if (dataset.source && event.buffer_exemplars > 0 &&
      !has_room_for(s, dataset, {seed, as.position.fields().first, event.buffer_exemplars}))
    return Refuse{event.job, Refusal::other_buffer, event.buffer_exemplars, 0};
  if (const auto why = s.buffers.objection(event, version))
    return Refuse{event.job, why->why, why->needed, why->available};
  return as;
}

}  // namespace batchflow::engine
