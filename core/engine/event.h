// The whole boundary of the engine on one page: events in, commands out.
//
//   std::span<const Command> Engine::step(Instant now, std::span<const Event> events);
//
// Events are facts that a backend has observed; commands are what it carries out. A backend owns
// its loop: it collects what has happened, calls `step`, and carries out the commands. Lists inside
// an event belong to the caller and need to live for the call only. Lists inside a command belong
// to the engine and live until the next step.
//
// Every command that takes time carries a Request: an id, and the number of the attempt. Its
// completion quotes both. A completion of a cancelled or older attempt changes nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "core/base/names.h"
#include "core/base/types.h"
#include "core/engine/exemplar.h"
#include "core/order/block_name.h"
#include "core/order/reservoir.h"

namespace batchflow::order {
class Position;  // where a job is in its data, what `state_dict` holds (core/order/position.h)
}

namespace batchflow::engine {

struct Request {
  RequestId id;
  std::uint32_t attempt = 0;
  friend constexpr auto operator<=>(const Request&, const Request&) = default;
};

// ----------------------------------------------------------------------------------- samples ----

// One sample of a block to prepare: which bytes to use, and where they are.
struct Ingredient {
  std::uint32_t index = 0;       // in the block
  bool keep_decoded = false;     // the decoded form goes into its share
  Form form = Form::encoded;     // encoded or decoded
  std::uint32_t occurrence = 0;  // weighted and rehearsed: a word of the draw key
  SampleId sample;
  // The read into staging memory that brought it; none: it is in its share on the preparing node.
  RequestId staging = RequestId::none();
};

// ------------------------------------------------------------------------------------ events ----

struct CatalogueKnown {  // look it up in the Catalogues the engine was given
  DatasetId dataset;     // stands for this version alone: what is cached goes by it
  Digest version;
};
struct PipelineKnown {
  PipelineId pipeline;
  Digest hash;
};

// The longest that a job may say it can wait for a batch.
inline constexpr Duration kLatencyTargetMost = std::chrono::hours(1);

// All ranks of a job have come. A job that resumes joins again, with its position.
struct JobJoined {
  JobId job;               // never used before in this engine: one id an incarnation
  std::uint64_t user = 0;  // hash of the user id
  DatasetId dataset;
  PipelineId pipeline;
  Order order = Order::relaxed;
  bool has_shuffle_seed = false;
  std::uint64_t shuffle_seed = 0;
  std::uint32_t batch_samples = 1;  // b, of one rank
  bool drop_last = false;
  std::uint32_t epochs = 0;     // how many the job will run; 0: not known, until it leaves
  std::uint64_t steps = 0;      // how many it will take; 0: not known, or all of its epochs
  std::uint32_t credits = 0;    // a rank; 0: the default of the configuration
  double weight = 1.0;          // of its stalls, for policies
  Duration latency_target{};    // how long it may wait for a batch without harm
  std::uint64_t draws = 0;      // weighted: of one epoch; 0: as many as there are samples
  bool multinomial = false;     // weighted: independent draws instead of systematic ones
  bool node_local = false;      // relaxed: each block is for the ranks of one node
  bool runs = false;            // relaxed: shuffles bundles, and samples within a lane
  std::uint32_t rehearsed = 0;  // m of each rank's b, from its buffer once it has one; live: fills
  // A buffer that the engine fills, by a number that stands for its name; 0: none. The job that
  // names it first says how many exemplars it has, and which policy chooses them.
  // live: no buffer; fills come from a reservoir of so many records, if not from the last ones.
  std::uint64_t buffer = 0;
  std::uint32_t buffer_exemplars = 0;
  std::string_view buffer_policy;
  // live: how long a step waits for records before those that the job has had fill it
  Duration fills_after{};
  std::uint64_t fills_from = 0;  // live: of the last so many records that it has had
  bool fills_cut = false;        // live: fills only stand for what is missing, a rank has a record
  // live, one rank, batches of one: a program asks for samples by their keys (SamplesWanted), of
  // any dataset; nothing of the job is promised
  bool keyed = false;
  // mixed, of weights that may change: by this policy, as the job's losses say; empty: by none
  std::string_view weights_policy;
  Digest pipeline_hash = 0;       // what the job has trained with so far; 0: anything
  std::span<const NodeId> ranks;  // the node of each
  // Where to start; null: at the beginning. A mixture has one always.
  const order::Position* position = nullptr;
};
struct JobLeft {
  JobId job;
};
// A rank died. Uncommitted steps return to the pool, and the job waits for JobResized.
struct RankLost {
  JobId job;
  Rank rank;
};
// The job goes on from its last commit with other ranks or another batch size.
struct JobResized {
  JobId job;
  std::uint32_t batch_samples;
  std::span<const NodeId> ranks;
};

struct BatchWanted {  // the rank has room for `credits` more batches
  JobId job;
  Rank rank;
  std::uint32_t credits = 1;
};
// A listed order: these samples, in this order, as one batch. `next_uses` is empty, or has for each
// sample the index of the later request of the same share that wants it next (kNeverUsed,
// kUnknownUse). Of a keyed job: its next steps, at most as many as it has credits.
struct SamplesWanted {
  JobId job;
  Rank rank;
  std::span<const SampleId> samples;
  std::span<const std::uint64_t> next_uses;
  std::span<const Bytes> sizes;  // empty, or the sizes to use instead of the catalogue's
};
struct BatchConsumed {  // trained on; a step is committed when all its ranks have said so
  JobId job;
  Rank rank;
  std::uint64_t step;
  Duration compute{0};  // measured time of the step, waiting not included
};
struct SlotReleased {  // no tensor, and no device, refers to the batch any more
  JobId job;
  Rank rank;
  std::uint64_t step;
};
struct Score {
  SampleId sample;
  float value;
};
// A backend that has more scores reports them in several steps: each may be the first to touch a
// page of memory, which takes microseconds.
inline constexpr std::size_t kScoresMost = 128;  // in one event
struct ScoresReported {
  JobId job;
  std::span<const Score> scores;
};
inline constexpr std::size_t kExemplarsAtOnce = 2048;  // in one event
// What a job rehearses: indices [first, first + samples) of its buffer. It counts from the job's
// next epoch on, or at once for a job that has just joined. A buffer that needs more than one event
// is reported with `more` in all but the last; none of them counts before the last.
struct ExemplarsReported {
  JobId job;
  bool anew = false;        // what the buffer held is forgotten first
  std::uint32_t first = 0;  // at most the size of the buffer: it may grow, but has no gaps
  std::span<const SampleId> samples;
  bool more = false;
};

// What a network makes of samples, and their classes where a job knows better than the catalogue:
// for the policy of the job's buffer. `values` has `features` numbers for each sample; `labels` is
// empty, or has one for each.
inline constexpr std::size_t kDescribedMost = 128;  // samples, in one event
struct SamplesDescribed {
  JobId job;
  std::uint32_t features = 0;
  std::span<const SampleId> samples;
  std::span<const std::uint32_t> labels;
  std::span<const float> values;
};
// A buffer as an earlier engine promised it (core/engine/promise.h). It comes before any job. A
// large buffer comes in several events, in turn.
struct BufferPromised {
  std::uint64_t buffer = 0;
  Digest version = 0;  // of the dataset
  std::uint32_t exemplars_most = 0;
  std::string_view policy;
  std::uint64_t shown = 0;
  std::span<const Exemplar> exemplars;  // behind those of the events before
};

enum class Outcome : std::uint8_t {
  done,
  failed,   // nothing came of it (I/O error, no route, peer gone): tried again within a bound
  corrupt,  // done, but for the samples listed: their bytes cannot be decoded
};
struct ReadDone {
  Request request;
  Outcome outcome = Outcome::done;
  // Of a failed read: the samples that were not read. The others stay until the read is commanded
  // again for these, or is released. Empty: nothing was read.
  std::span<const SampleId> failed;
};
struct PreparationDone {
  Request request;
  Outcome outcome = Outcome::done;
  std::span<const SampleId> failed;  // of a corrupt one: those that cannot be decoded
};
struct TransferDone {
  Request request;
  Outcome outcome = Outcome::done;
};
struct DeliveryDone {
  Request request;
  Outcome outcome = Outcome::done;
};

struct NodeJoined {
  NodeId node;
  std::uint32_t cores = 1;  // that may be given to preparation
};
struct NodeQuiesced {  // takes no more work, finishes what it has
  NodeId node;
};
struct NodeLost {  // with everything on it
  NodeId node;
};
struct WorkerJoined {
  WorkerId worker;
  NodeId node;
};
// The worker takes no more commands and writes no more memory: what it had is free.
struct WorkerQuiesced {
  WorkerId worker;
};
// The worker does not answer. Until it is quiesced, the slot that it might still write stays taken.
struct WorkerLost {
  WorkerId worker;
};
inline constexpr std::uint16_t kGpusMost = 64;  // of a node; they are devices 0 to 63
struct CapacityChanged {  // of a place; a new place begins with this, zero ends it
  Place place;            // of a GPU: the part of its memory for decoded samples
  Bytes bytes;
};
// The mean bytes of the decoded samples that are kept. Before there are any, a pipeline only
// guesses.
struct DecodedMeasured {
  DatasetId dataset;
  ShareId share;
  Bytes bytes;
};
// What becomes of the kept samples of a dataset.
enum class Keep : std::uint8_t {
  as_needed,  // memory as the policies say, while jobs read it and then while no other dataset
              // wants it
  always,     // as if one more job read it
  dropped,    // what no job reads leaves at once; and from then on as needed
};
struct DatasetKept {
  DatasetId dataset;
  Keep keep = Keep::as_needed;
};
struct PolicyChanged {  // `kind=name:parameter=value`
  std::string_view text;
};
struct ConfigurationChanged {  // `key=value`, one of those the engine can change while it runs
  std::string_view text;
};
struct TimerFired {
  TimerId timer;
};

inline constexpr std::size_t kSamplesKeptMost = 2048;  // in one event
// In how many forms a node may say that it has kept samples of one dataset: as they are stored, and
// decoded by so many pipelines.
inline constexpr std::size_t kFormsKeptMost = 64;
// The memory or drive of a node has kept these from before this engine began. Where `bundle_shift`
// is not 0, each is the first of a bundle.
struct SamplesKept {
  Place place;
  DatasetId dataset;
  Digest prefix = 0;  // 0: as they are stored; else decoded, by this part of a pipeline
  Bytes bytes = 0;    // of decoded ones: what each takes, on average
  std::uint8_t bundle_shift = 0;
  std::span<const SampleId> samples;
};

// The sources of the job's mixture have these parts of order::Mixture::kWhole from draw `at` on, or
// from the first later draw that is not drawn yet. MixtureSet says from which.
struct MixtureChanged {
  JobId job;
  std::uint64_t at = 0;
  std::span<const std::uint64_t> parts;
};

// The losses of a rank's network on the sources of the job's mixture, one for each source. A value
// that is no number says nothing of its source. For the policy of the job's weights.
struct LossesReported {
  JobId job;
  std::span<const float> losses;
};

// A source that grows has the records [first, end): those before are gone, and no others will come
// between. Records stay in its log as long as that has room.
struct SourceGrew {
  DatasetId dataset;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  Bytes kept = 0;       // by the log
  Bytes kept_most = 0;  // that it may keep
  bool ended = false;   // no more will come
};

// Nodes of two versions send one another events and commands by their numbers here: what is new
// comes last.
using Event = std::variant<CatalogueKnown, PipelineKnown, JobJoined, JobLeft, RankLost, JobResized,
                           BatchWanted, SamplesWanted, BatchConsumed, SlotReleased, ScoresReported,
                           ExemplarsReported, ReadDone, PreparationDone, TransferDone, DeliveryDone,
                           NodeJoined, NodeQuiesced, NodeLost, WorkerJoined, WorkerQuiesced,
                           WorkerLost, CapacityChanged, DecodedMeasured, DatasetKept, PolicyChanged,
                           ConfigurationChanged, TimerFired, SamplesKept, MixtureChanged,
                           SamplesDescribed, BufferPromised, SourceGrew, LossesReported>;

// ---------------------------------------------------------------------------------- commands ----

// The job is in. It carries the sizes that the job needs to know.
struct Admit {
  JobId job;
  StreamId stream;
  std::uint32_t credits;        // a rank, what its reserve covers
  std::uint32_t block_samples;  // B
  std::uint64_t first_step;     // the number of the step its ranks get next
};

enum class Refusal : std::uint8_t {
  no_room,  // its minimum does not fit: `needed` and `available` bytes, beside what others have
  unknown_dataset,
  unknown_pipeline,  // or another by that id: `needed` is the hash the job knows, `available` ours
  bad_position,      // another dataset version, seed or size: `needed` is theirs, `available` ours
  bad_request,       // zero ranks, zero batch, an unknown node, a repeated id
  rank_lost,         // no resize came in time
  // `needed` corrupt samples, `available` allowed; of a mixture, in one of its sources. Where
  // `needed` is not more, no candidate of a corrupt sample was a good one.
  too_many_corrupt,
  storage_failed,  // a read failed more often than the configuration allows
  no_workers,  // preparation failed more often than the configuration allows, or no worker could
               // prepare for the job within a rank's time-out
  nothing_to_draw,  // a weighted order in which all weights are zero
  // Node-local or of runs, but not relaxed; of runs of a dataset without bundles; rehearsal of a
  // weighted order or of a list; live of a dataset that does not grow, or another order of one that
  // does.
  wrong_order,
  // A buffer of that name has room for `available` exemplars, not `needed`; if these are equal, it
  // has another policy; if `available` is 0, there is no room for it beside those of other jobs.
  other_buffer,
};
constexpr std::string_view name_of(Refusal why) {
  constexpr std::string_view kNames[] = {"no_room",          "unknown_dataset", "unknown_pipeline",
                                         "bad_position",     "bad_request",     "rank_lost",
                                         "too_many_corrupt", "storage_failed",  "no_workers",
                                         "nothing_to_draw",  "wrong_order",     "other_buffer"};
  return name_in<Refusal::other_buffer>(kNames, why);
}
// The job is not served, or no longer. Every rank gets this as its answer.
struct Refuse {
  JobId job;
  Refusal why;
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
};

// Bring samples' bytes to a node: into a share (`keep`), or into staging memory that stays until
// the read is released.
struct Read {
  Request request;
  DatasetId dataset;
  Place from;  // a store, a device of a node, or a peer's memory
  Place to;    // where they are staged, unless that is where they are kept
  Form form = Form::encoded;
  ShareId keep = ShareId::none();
  Place keep_at;                      // with `keep`: the place of the share
  WorkerId held = WorkerId::none();   // a worker that is kept waiting meanwhile, if any
  order::Lineage lineage;             // of the block it is for; `samples` empty: all of them
  std::span<const SampleId> samples;  // of another attempt: those that failed
  // Not 0: each of `samples` is the first of a bundle (core/engine/catalogue.h).
  std::uint8_t bundle_shift = 0;
};

// Make a block, or a part of it. Parts come in ascending order of index, as further attempts of one
// request. Between them come parts that mend: samples that could not be decoded before. `slot` is
// where the prepared form goes.
struct Prepare {
  Request request;
  WorkerId worker;
  NodeId node;
  order::Lineage lineage;
  ShareId share;
  SlotId slot;
  // Empty: every sample of the lineage is prepared, from its encoded bytes in the staging memory of
  // `staging`. Else one entry for each sample to prepare.
  RequestId staging = RequestId::none();
  std::span<const Ingredient> ingredients;
  // With `kept_to`: all samples of the lineage at indices [kept_from, kept_to) are prepared. Those
  // that are no ingredients are kept on the node, as they are stored.
  // Ingredients then come in ascending order of index.
  std::uint32_t kept_from = 0;
  std::uint32_t kept_to = 0;
  ShareId decoded_share = ShareId::none();  // of the ingredients with `keep_decoded`
  std::span<const order::Replacement>
      replacements;    // for corrupt samples: drawn with the key of `corrupt`
  bool mends = false;  // all was made before, but for what could not be decoded

  // How many samples it prepares.
  std::uint64_t samples() const {
    if (kept_to > 0) return kept_to - kept_from;
    return ingredients.empty() ? lineage.samples : ingredients.size();
  }
};

// Copy a slice of a block into a batch's slot, on the same node or on another.
struct Transfer {
  Request request;
  Place from;
  Place to;
  ShareId from_share;
  SlotId from_slot;
  ShareId to_share;
  SlotId to_slot;
  order::Slice slice;
  std::uint32_t offset_samples = 0;  // where in the batch
  std::uint32_t slot_samples = 0;    // that `to_slot` has room for
};

// Hand a batch to a rank. These commands come in the order of the rank's steps. In place: `slot` is
// the block's slot, and the batch is samples [from, to) of the only slice; of a live order, of up
// to two that are adjacent. Otherwise `slot` holds the gathered batch.
struct Deliver {
  Request request;
  JobId job;
  Rank rank;
  std::uint64_t step = 0;  // counts the job's steps over all epochs of this incarnation
  std::uint32_t epoch = 0;
  bool last_of_epoch = false;
  bool in_place = false;
  Place place;
  ShareId share;
  SlotId slot;
  std::uint32_t block_samples = 0;  // B and L of the blocks that slices name
  std::uint32_t lane_blocks = 0;
  std::span<const order::Slice> slices;  // fillers after the rank's own, then rehearsed ones
  Digest drawn_from = 0;                 // weighted: the weights; rehearsed: the buffer
  std::span<const SampleId> samples;     // of draws, weighted or rehearsed: the ids; else empty
  std::uint32_t rehearsed_block_samples = 0;  // B of the blocks that rehearsed slices name
  std::span<const Ingredient> ingredients;    // of a listed order: the samples as they are stored
  std::span<const order::Replacement> replacements;  // `index` counts within the batch
  std::uint32_t repeats = 0;  // samples the job had in committed steps with the same draws
};

// An item or block leaves a place. Its slot is free as soon as this has been carried out.
struct Drop {
  ShareId share;
  Place place;
  Form form;
  ItemId item;
  SlotId slot = SlotId::none();
};
// The request is not wanted any more. A cancelled preparation is still reported if its worker is
// there, as failed unless it had ended: until then the worker may write to the slot. No other
// cancelled request is reported.
struct Cancel {
  Request request;
};
// The staging memory of these samples of a read is no longer needed.
struct Release {
  Request request;
  std::span<const SampleId> samples = {};  // empty: all that is left of it
};
struct EpochEnded {
  JobId job;
  std::uint32_t epoch;
  std::uint64_t samples;  // delivered and acknowledged in it, fillers excluded
};
struct SetWorkers {
  NodeId node;
  std::uint32_t workers;
};
struct SetTimer {
  TimerId timer;
  Instant at;
};
// A node that was quiesced may end: what it kept is elsewhere, as far as there was room, and
// nothing is under way there.
struct LetGo {
  NodeId node;
};
// This share is at this place, for the dataset in the form that `prefix` says. What the place has
// kept of it from before (SamplesKept) is in the share from now on. On a node whose GPUs keep
// samples every share of decoded ones begins with this, and is empty then: Prepare::decoded_share
// may be in memory or on a GPU.
struct Adopt {
  Place place;
  ShareId share;
  DatasetId dataset;
  Digest prefix = 0;
};

// The job's sources have these parts from draw `at` of its mixture on. Its ranks are told before
// the step of that draw.
struct MixtureSet {
  JobId job;
  std::uint64_t at = 0;
  std::span<const std::uint64_t> parts;
  bool soon = false;  // later than was asked for
};

// What the job rehearses from until the next such command: a buffer that the engine fills, as of
// the beginning of the job's next epoch.
struct ExemplarsSet {
  JobId job;
  std::span<const SampleId> samples;
  std::span<const std::uint32_t> weights;  // empty: all are drawn alike
};

// How a source is to go on. It changes with what its log keeps and with what its jobs have had.
struct SourcePaced {
  DatasetId dataset;
  std::uint64_t needed_from = 0;  // no job needs records before this one, but exemplars
  bool waits = false;             // producers that can wait do
  // Of the records of producers that cannot wait, this part of 2^32 is taken. Their keys say which.
  std::uint64_t taken_part = 0;
  // Of its jobs. Of the records that its log drops, it keeps those that these have by then. A job
  // may leave and come back, so the log also keeps what others have that it was told of before, as
  // far as there is room.
  std::span<const order::ReservoirName> reservoirs;
};

using Command =
    std::variant<Admit, Refuse, Read, Prepare, Transfer, Deliver, Drop, Cancel, Release, EpochEnded,
                 SetWorkers, SetTimer, LetGo, Adopt, MixtureSet, ExemplarsSet, SourcePaced>;

}  // namespace batchflow::engine
