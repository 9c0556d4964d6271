// The fields of every event and command, listed once for all code that treats them alike: the
// journal's encoding, the digest of commands, and the text of logs and explanations.
//
// for_each_field(value, visit) calls visit("name", field) for each in order; type_name<T>() is the
// type's name. A field that is added to core/engine/event.h and not here does not compile: a
// structured binding needs a name for each.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/engine/event.h"

// BATCHFLOW_EACH(f, a, b, c): f(a) f(b) f(c), for up to 64.
#define BATCHFLOW_PARENTHESES ()
#define BATCHFLOW_EXPAND(...) BATCHFLOW_EXPAND2(BATCHFLOW_EXPAND2(__VA_ARGS__))
#define BATCHFLOW_EXPAND2(...) BATCHFLOW_EXPAND3(BATCHFLOW_EXPAND3(__VA_ARGS__))
#define BATCHFLOW_EXPAND3(...) BATCHFLOW_EXPAND4(BATCHFLOW_EXPAND4(__VA_ARGS__))
#define BATCHFLOW_EXPAND4(...) BATCHFLOW_EXPAND5(BATCHFLOW_EXPAND5(__VA_ARGS__))
#define BATCHFLOW_EXPAND5(...) BATCHFLOW_EXPAND6(BATCHFLOW_EXPAND6(__VA_ARGS__))
#define BATCHFLOW_EXPAND6(...) __VA_ARGS__
#define BATCHFLOW_EACH(f, ...) __VA_OPT__(BATCHFLOW_EXPAND(BATCHFLOW_EACH_ONE(f, __VA_ARGS__)))
#define BATCHFLOW_EACH_ONE(f, first, ...) \
  f(first) __VA_OPT__(BATCHFLOW_EACH_AGAIN BATCHFLOW_PARENTHESES(f, __VA_ARGS__))
#define BATCHFLOW_EACH_AGAIN() BATCHFLOW_EACH_ONE

#define BATCHFLOW_VISIT(field) visit(#field, field);
#define BATCHFLOW_FIELDS(Type, ...)                        \
  constexpr std::string_view type_name_of(const Type*) {   \
    return #Type;                                          \
  }                                                        \
  template <class Self, class Visit>                       \
  requires std::is_same_v<std::remove_const_t<Self>, Type> \
  void for_each_field(Self& self, Visit&& visit) {         \
    auto& [__VA_ARGS__] = self;                            \
    BATCHFLOW_EACH(BATCHFLOW_VISIT, __VA_ARGS__)           \
  }

namespace batchflow {

template <class T>
constexpr std::string_view type_name() {
  return type_name_of(static_cast<const T*>(nullptr));
}

BATCHFLOW_FIELDS(Place, node, tier, device)

// What a visitor may meet beside numbers, enumerations, times and texts.
template <class T>
inline constexpr bool is_id = false;
template <class Tag, class Rep>
inline constexpr bool is_id<Id<Tag, Rep>> = true;

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::span<const T>> = true;

}  // namespace batchflow

namespace batchflow::order {

BATCHFLOW_FIELDS(BlockName, generation, lane, pass, block)
BATCHFLOW_FIELDS(Lineage, dataset, dataset_version, pipeline, pipeline_hash, order, seed,
                 block_samples, lane_blocks, name, samples, run_shift)
BATCHFLOW_FIELDS(Slice, name, from, to, filler, rehearsed)
BATCHFLOW_FIELDS(Replacement, index, corrupt, used)
BATCHFLOW_FIELDS(ReservoirName, seed, first, most)

}  // namespace batchflow::order

namespace batchflow::engine {

// ----------------------------------------------------------- parts of events and commands ----

BATCHFLOW_FIELDS(Request, id, attempt)
BATCHFLOW_FIELDS(Ingredient, index, keep_decoded, form, occurrence, sample, staging)
BATCHFLOW_FIELDS(Score, sample, value)
BATCHFLOW_FIELDS(Exemplar, sample, label, is_scored, score, since)

// ---------------------------------------------------------------------------------- events ----

BATCHFLOW_FIELDS(CatalogueKnown, dataset, version)
BATCHFLOW_FIELDS(PipelineKnown, pipeline, hash)
BATCHFLOW_FIELDS(JobJoined, job, user, dataset, pipeline, order, has_shuffle_seed, shuffle_seed,
                 batch_samples, drop_last, epochs, steps, credits, weight, latency_target, draws,
                 multinomial, node_local, runs, rehearsed, buffer, buffer_exemplars, buffer_policy,
                 fills_after, fills_from, fills_cut, keyed, weights_policy, pipeline_hash, ranks,
                 position)
BATCHFLOW_FIELDS(JobLeft, job)
BATCHFLOW_FIELDS(RankLost, job, rank)
BATCHFLOW_FIELDS(JobResized, job, batch_samples, ranks)
BATCHFLOW_FIELDS(BatchWanted, job, rank, credits)
BATCHFLOW_FIELDS(SamplesWanted, job, rank, samples, next_uses, sizes)
BATCHFLOW_FIELDS(BatchConsumed, job, rank, step, compute)
BATCHFLOW_FIELDS(SlotReleased, job, rank, step)
BATCHFLOW_FIELDS(ScoresReported, job, scores)
BATCHFLOW_FIELDS(ExemplarsReported, job, anew, first, samples, more)
BATCHFLOW_FIELDS(ReadDone, request, outcome, failed)
BATCHFLOW_FIELDS(PreparationDone, request, outcome, failed)
BATCHFLOW_FIELDS(TransferDone, request, outcome)
BATCHFLOW_FIELDS(DeliveryDone, request, outcome)
BATCHFLOW_FIELDS(NodeJoined, node, cores)
BATCHFLOW_FIELDS(NodeQuiesced, node)
BATCHFLOW_FIELDS(NodeLost, node)
BATCHFLOW_FIELDS(WorkerJoined, worker, node)
BATCHFLOW_FIELDS(WorkerQuiesced, worker)
BATCHFLOW_FIELDS(WorkerLost, worker)
BATCHFLOW_FIELDS(CapacityChanged, place, bytes)
BATCHFLOW_FIELDS(DecodedMeasured, dataset, share, bytes)
BATCHFLOW_FIELDS(DatasetKept, dataset, keep)
BATCHFLOW_FIELDS(PolicyChanged, text)
BATCHFLOW_FIELDS(ConfigurationChanged, text)
BATCHFLOW_FIELDS(TimerFired, timer)
BATCHFLOW_FIELDS(SamplesKept, place, dataset, prefix, bytes, bundle_shift, samples)
BATCHFLOW_FIELDS(MixtureChanged, job, at, parts)
BATCHFLOW_FIELDS(SamplesDescribed, job, features, samples, labels, values)
BATCHFLOW_FIELDS(BufferPromised, buffer, version, exemplars_most, policy, shown, exemplars)
BATCHFLOW_FIELDS(SourceGrew, dataset, first, end, kept, kept_most, ended)
BATCHFLOW_FIELDS(LossesReported, job, losses)

// -------------------------------------------------------------------------------- commands ----

BATCHFLOW_FIELDS(Admit, job, stream, credits, block_samples, first_step)
BATCHFLOW_FIELDS(Refuse, job, why, needed, available)
BATCHFLOW_FIELDS(Read, request, dataset, from, to, form, keep, keep_at, held, lineage, samples,
                 bundle_shift)
BATCHFLOW_FIELDS(Prepare, request, worker, node, lineage, share, slot, staging, ingredients,
                 kept_from, kept_to, decoded_share, replacements, mends)
BATCHFLOW_FIELDS(Transfer, request, from, to, from_share, from_slot, to_share, to_slot, slice,
                 offset_samples, slot_samples)
BATCHFLOW_FIELDS(Deliver, request, job, rank, step, epoch, last_of_epoch, in_place, place, share,
                 slot, block_samples, lane_blocks, slices, drawn_from, samples,
                 rehearsed_block_samples, ingredients, replacements, repeats)
BATCHFLOW_FIELDS(Drop, share, place, form, item, slot)
BATCHFLOW_FIELDS(Cancel, request)
BATCHFLOW_FIELDS(Release, request, samples)
BATCHFLOW_FIELDS(EpochEnded, job, epoch, samples)
BATCHFLOW_FIELDS(SetWorkers, node, workers)
BATCHFLOW_FIELDS(SetTimer, timer, at)
BATCHFLOW_FIELDS(LetGo, node)
BATCHFLOW_FIELDS(Adopt, place, share, dataset, prefix)
BATCHFLOW_FIELDS(MixtureSet, job, at, parts, soon)
BATCHFLOW_FIELDS(ExemplarsSet, job, samples, weights)
BATCHFLOW_FIELDS(SourcePaced, dataset, needed_from, waits, taken_part, reservoirs)

}  // namespace batchflow::engine
