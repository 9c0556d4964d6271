// Where blocks go, as plain data: datasets, the streams of blocks that jobs share, the jobs, and
// the batches that their ranks are given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/quantile_sketch.h"
#include "core/base/rates.h"
#include "core/base/types.h"
#include "core/engine/blocks.h"
#include "core/engine/buffers.h"
#include "core/engine/catalogue.h"
#include "core/engine/event.h"
#include "core/engine/indices.h"
#include "core/engine/loss_weights.h"
#include "core/engine/memory.h"
#include "core/engine/runs.h"
#include "core/engine/sample_costs.h"
#include "core/engine/stall_meter.h"
#include "core/order/chosen.h"
#include "core/order/drawn_epoch.h"
#include "core/order/keyed_epoch.h"
#include "core/order/lanes.h"
#include "core/order/live_epoch.h"
#include "core/order/mixed_epoch.h"
#include "core/order/order.h"
#include "core/order/position.h"
#include "core/order/step_plan.h"
#include "core/order/weighted.h"
#include "core/order/weights.h"

namespace batchflow::engine {

// ---------------------------------------------------------------------------------- streams ----

// A stream's memory on one node.
struct StreamNode {
  // Streams
  NodeId node;
  NodeIndex index = NodeIndex::none();  // of the node
  ShareId share = ShareId::none();
  bool standby = false;  // no ranks, but a slot was promised, so that blocks can be made here

  // Reserves
  Slots jobs = 0;     // with ranks on this node
  Slots ranks = 0;    // of them
  Slots reserve = 0;  // ranks x credits of the jobs with batches in this share

  // core/engine/books.h
  Slots ahead = 0;  // blocks charged as made ahead
  Handle current;   // the block charged as current, if any
};

// What a dataset that grows has, as SourceGrew says, and how it was told to go on.
struct GrowingSource {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  Bytes kept = 0;
  Bytes kept_most = 0;
  bool ended = false;
  SourcePaced paced;
  // As its log was told last.
  std::vector<order::ReservoirName> reservoirs;
};

// Datasets makes it; GrowingSources sets `source`, Suspects adds to `corrupt`, and Streams keeps
// `streams`.
struct Dataset {
  DatasetId id;
  const Catalogue* catalogue = nullptr;
  // Sorted. By pipeline, since a step of one pipeline may fail where another does not.
  std::map<std::uint32_t, std::vector<SampleId>> corrupt;
  std::vector<StreamId> streams;  // that use it
  bool kept_always = false;
  std::optional<GrowingSource> source;  // it grows

  const std::vector<SampleId>& corrupt_by(PipelineId pipeline) const {
    static const std::vector<SampleId> kNothing;
    const auto found = corrupt.find(pipeline.value);
    return found == corrupt.end() ? kNothing : found->second;
  }
};

// The selection policy that one stream has for itself. The policy refers to its choice.
struct OwnSelection {
  PolicyChoice choice;
  std::unique_ptr<SelectionPolicy> policy;
};

struct Stream {
  // Streams
  StreamId id;
  DatasetIndex dataset = DatasetIndex::none();
  const PipelineInfo* pipeline = nullptr;
  PipelineId pipeline_id;
  // Relaxed stands for strict too; or sequential, weighted, mixed, live.
  Order family = Order::relaxed;
  std::uint64_t seed = 0;
  bool alone = false;          // it is for one job
  bool chosen = false;         // and a policy chooses the samples of each block for that job
  bool keyed = false;          // and that job is keyed
  std::uint8_t run_shift = 0;  // not 0: runs of 2^run_shift samples, the bundles, are shuffled
  std::uint64_t sharing_key = 0;
  std::uint32_t block_samples = 1;
  std::uint64_t epoch_samples = 0;         // N, or the draws of an epoch
  std::vector<SampleRange> mixed_sources;  // mixed; in the order of their samples
  Bytes sample_bytes = 1;                  // prepared
  Bytes block_bytes = 1;
  std::unique_ptr<order::Lanes> lanes;
  std::vector<StreamNode> nodes;
  // Not 0: no node can prepare for it any more, since the time with this serial.
  std::uint64_t stranded = 0;

  std::vector<JobIndex> jobs;  // Membership

  // BlockSelection: the policy of its jobs, if it is not that of all others
  std::unique_ptr<OwnSelection> own_selection;
  std::uint64_t refused_choices = 0;  // of whatever policy its jobs had

  // Preparation
  double prepare_s = 0;  // smoothed
  SampleCosts costs;
  SmoothedRate made;    // samples
  SmoothedRate remade;  // blocks

  // Dispatching
  std::uint32_t needs = 0;  // how many of its jobs have a need
  // How many blocks its shares have room for, and what Memory::resizes() was when that was counted.
  Slots window = 0;
  std::uint64_t window_as_of = UINT64_MAX;

  // SecondWorkers
  // Preparations that may turn out to be late, in the order in which they began.
  struct Begun {
    MakingIndex making;
    std::uint64_t serial;
    Instant since;
  };
  std::deque<Begun> begun;
  bool watched = false;              // there is an alarm for the first of them
  QuantileSketch preparation_times;  // in nanoseconds

  // Whether the samples of a block follow from its name.
  bool names_samples() const { return !is_drawn(family) && !chosen; }

  std::vector<SampleId> scratch;
  bool needs_changed = false;  // stands in EngineState::changed_streams

  void reset() { *this = Stream(); }
};

// ------------------------------------------------------------------------- jobs and batches ----

// A piece of a batch: indices of the job's sequence that lie in one block.
struct Piece {
  std::uint64_t index = 0;  // in the sequence that the slice is of
  order::Slice slice;
  std::uint32_t offset = 0;  // in the batch
  enum class State : std::uint8_t { missing, copying, there } state = State::missing;
  Handle block;  // while copying or delivered in place
  RequestId request = RequestId::none();
  OnWay on_way;  // while copying, from another node
};

// Assembly changes what a batch is made of, and Delivery how far its rank is with it. Listed makes
// the batches of listed orders. Reads counts `waiting_reads`, and Reserves sets `reserved`.

// What a batch is and how far it has come. All of it is cleared at once.
struct BatchState {
  JobIndex job = JobIndex::none();
  Rank rank = 0;
  std::uint64_t step = 0;
  std::uint32_t epoch = 0;
  bool last_of_epoch = false;
  order::LaneSizes sizes;            // of its blocks
  order::LaneSizes rehearsed_sizes;  // of those that are rehearsed
  std::uint32_t samples = 0;
  order::IndexRange uncut;  // of its own indices: not granted yet, or not cut into pieces
  bool all_cut = false;     // fillers and what is rehearsed, too
  enum class State : std::uint8_t { assembling, delivering, delivered } state = State::assembling;
  bool in_place = false;
  bool consumed = false;
  bool released = false;
  bool held = false;                   // of a step that is void: it only waits to be released
  ShareId reserved = ShareId::none();  // of the stream: its reserve covers the held batch
  std::uint32_t numbering = 0;         // of the job's ranks, when it was begun
  ShareId share = ShareId::none();     // of its own slot, when gathered
  bool written = false;                // something was commanded to be copied there
  ItemId item;
  SlotId slot;
  NodeId node;
  RequestId request = RequestId::none();
  std::uint32_t attempts = 0;
  std::uint32_t waiting_reads = 0;
  std::uint32_t lost_reads = 0;    // of these, those that have come to nothing
  std::uint32_t drawn_pieces = 0;  // all of their draws are listed
  std::uint32_t drawn_within = 0;  // of the next piece
};

// A sample of a listed order, as its source tells of it.
struct ListedSample {
  Bytes bytes = 0;
  std::uint64_t next_use = 0;
};

struct Batch : BatchState {
  std::shared_ptr<const order::Rehearsal> rehearsal;
  std::vector<Piece> pieces;
  std::vector<order::Replacement> replacements;
  std::vector<Ingredient> ingredients;  // a listed order's samples, in order
  std::vector<ListedSample> asked;      // what is known of each of them
  std::vector<std::uint32_t> missing;   // of them, those to be looked up: indices
  std::vector<ItemPin> pins;            // items delivered as they are stored
  // Live orders: the slices that were handed over. The batch may be handed over again when its step
  // is committed, and the step's draws are forgotten.
  std::vector<order::Slice> handed;
  ReadHolds reads;
  // Draws cannot be expanded from names. These are the ids of its pieces, as far as they are
  // listed.
  std::shared_ptr<std::vector<SampleId>> drawn;

  void reset() {
    BatchState::operator=({});
    rehearsal.reset();
    drawn.reset();
    pieces.clear();
    replacements.clear();
    ingredients.clear();
    asked.clear();
    missing.clear();
    pins.clear();
    handed.clear();
    reads.reads.clear();
    reads.samples.clear();
  }
};

struct RankState {
  NodeId node;
  bool lost = false;
  std::uint32_t credits = 0;  // batches asked for and not yet begun
  std::uint64_t next_step = 0;
  std::vector<BatchIndex> batches;   // begun and not released, oldest first
  std::uint64_t consumed_steps = 0;  // all below are consumed
  StallMeter stall;
};

// Membership makes it. Each group of fields is changed by one part alone, except where it says
// otherwise.
struct Job {
  // Membership: what the job asked for
  JobId id;
  JobIndex index = JobIndex::none();
  std::uint64_t serial = 0;
  StreamId stream = StreamId::none();
  DatasetIndex dataset = DatasetIndex::none();
  Order order = Order::relaxed;
  std::uint32_t batch_samples = 1;
  bool drop_last = false;
  std::uint32_t epochs = 0;
  std::uint64_t steps = 0;    // 0: not known
  std::uint64_t draws = 0;    // samples of one epoch
  bool multinomial = false;   // how these are drawn: weighted orders
  double weight = 1;          // of its stalls
  Duration latency_target{};  // how long it may wait for a batch
  std::uint64_t user = 0;     // hash of the user id
  bool has_shuffle_seed = false;
  bool chosen = false;          // a policy chooses its samples; its order is strict otherwise
  bool node_local = false;      // each node has a sequence of its own: relaxed
  std::uint32_t rehearsed = 0;  // m, as JobJoined has it
  Buffer* buffer = nullptr;     // that the engine fills for it; null: none
  Duration fills_after{};       // live, as JobJoined has them
  std::uint64_t fills_from = 0;
  bool fills_cut = false;
  std::uint32_t reservoir = 0;  // live: fills come from so many exemplars; 0: from the last records
  bool keyed = false;           // live: a program asks for its samples by their keys

  // Membership: how it is served. A join begins as `joining`, a resize as `resizing`, from any
  // state but `refused`. A lost rank makes the job `degraded` until it is resized. Only a running
  // job has a member in the lanes of its stream, runs, and batches that are not held.
  enum class State : std::uint8_t {
    joining,   // its memory is promised, and not all of it is there yet
    running,   // served
    degraded,  // a rank is lost
    refused,   // not served any more, but ranks still read what they were handed
    resizing,  // its new size is promised nothing yet: batches of void steps may be in the way
  } state = State::joining;
  // It has left its stream for another, and is `joining` there. Its ranks notice nothing.
  bool moves = false;
  // It stays in its stream for another epoch, since the other stream has no room for it. Grants
  // clears this at that epoch.
  bool stays = false;
  std::uint32_t numbering = 0;    // of its ranks: how often it was resized
  std::uint64_t lost_serial = 0;  // of its present loss of a rank
  // Why the job is refused before the step ends, if it is. Grants: `nothing_to_draw`, all weights
  // are zero. Commits: `bad_position`, what it had does not follow from the position it came with.
  std::optional<Refusal> to_refuse;
  bool to_look_at = false;  // stands in EngineState::jobs_to_look_at, in any state

  // Assembly and Delivery, and Listed for a listed order. Membership sets their number, and `lost`.
  std::vector<RankState> ranks;
  std::vector<BatchIndex> held;  // batches of void steps that ranks still read
  double step_s = 0;             // smoothed compute time of a step

  // Assembly and Grants: what its ranks wait for, as of when it was last looked at. Of several, the
  // last in this list.
  enum class Waits : std::uint8_t {
    for_nothing,  // all credits are served
    for_memory,   // a slot, or a block that it took, and that is gone or not made yet
    to_take,      // for a block that it has not taken yet
  } waits = Waits::for_nothing;
  bool is_waiting() const { return waits != Waits::for_nothing; }
  void wait(Waits why) { waits = std::max(waits, why); }
  // A batch waits for a block that is gone. It is set while `waits` is not `for_nothing`, and stays
  // until Dispatching looks for the job's next need and finds no such block: `waits` may have
  // changed.
  bool lost_grants = false;

  // Reserves
  std::uint32_t credits = 0;            // Membership may set it back, or raise it for a resize
  std::vector<ShareId> batch_shares;    // a node: where batches larger than a block live
  std::vector<ShareId> retired_shares;  // where held batches are, of an earlier size
  struct Reserved {
    NodeId node;
    Slots ranks;
    Slots slots;
  };
  std::vector<Reserved> reserved;  // what it was promised in the stream's shares
  struct Listed {
    NodeId node;
    Bytes bytes;
  };
  std::vector<Listed> listed;  // and of staging memory, for batches of a listed order

  // Grants
  order::MemberId member;
  std::uint32_t lanes_epoch = 0;  // the epoch that its member is running
  std::deque<EpochRun> runs;      // oldest uncommitted first; the last one is granting
  std::vector<Grant> resumed;     // rests of partly used blocks, taken first
  std::deque<order::ChosenEpoch> chosen_epochs;  // if samples are chosen; oldest first
  Instant asks_again{};  // when the selection policy is asked again, if that is to come

  // DrawnEpochs
  std::unique_ptr<order::DrawnEpoch> drawn;  // drawn orders: the running epoch
  order::MixedEpoch* mixed = nullptr;        // mixed orders: the same
  std::uint32_t mixed_epoch = 0;             // and of which epoch these draws are
  order::LiveEpoch* live = nullptr;          // live orders: the same
  order::KeyedEpoch* keys = nullptr;         // keyed jobs: the same
  Instant short_since = kNever;  // live: since when its ranks wait for records that have not come
  Instant fills_at{};            // live: when it is looked at again, if that is to come

  std::unique_ptr<LossWeights> loss_weights;  // MixtureWeights; null: nothing changes them

  // What the job reports: the engine adds to them, and DrawnEpochs freezes the weights of an epoch.
  std::unique_ptr<order::Weights> weights;  // weighted orders
  order::ExemplarBuffer exemplars;

  Digest told_buffer = 0;  // Grants; of what its ranks know of its buffer

  // Commits. Membership voids the steps below the next one where the job starts over. DrawnEpochs
  // and MixtureWeights write what is drawn from into the position.
  std::uint64_t committed_step = 0;  // all below are committed
  order::Position committed;

  // core/engine/books.h
  std::vector<BlockIndex> charged;  // blocks charged to it
  std::uint32_t ahead = 0;          // of these, as made ahead

  // Preparation
  std::uint32_t makings = 0;      // under way that were started for it
  std::uint64_t last_served = 0;  // serial of the making last started for it

  std::int64_t head_start = 0;  // Leads; blocks it counts as having had when it came

  // Dispatching
  std::uint64_t asked = 0;               // when its present need arose
  std::uint32_t candidate_slot = kNone;  // in the list of needs

  void reset() { *this = Job(); }
};

}  // namespace batchflow::engine
