// What the engine knows, as plain data, shared by its parts.
//
// Each structure belongs to one part, which alone changes it: nodes and workers, the making of
// blocks, the caches of items, streams, jobs and their batches. Indices into pools name things;
// a handle (index and serial) notices that what it named is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/arena.h"
#include "core/catalogue.h"
#include "core/engine.h"
#include "core/engine/alarms.h"
#include "core/engine/memory.h"
#include "core/engine/requests.h"
#include "core/engine/runs.h"
#include "core/engine_config.h"
#include "core/event.h"
#include "core/flat_map.h"
#include "core/keys.h"
#include "core/lanes.h"
#include "core/order.h"
#include "core/policy_list.h"
#include "core/pool.h"
#include "core/position.h"
#include "core/promise.h"
#include "core/quantile_sketch.h"
#include "core/statistics.h"
#include "core/step_plan.h"
#include "core/types.h"
#include "core/weighted.h"
#include "core/weights.h"

namespace batchflow {

// ------------------------------------------------------------------------ nodes and workers ----

struct Worker {
  WorkerId id;
  std::uint32_t node = kNone;
  enum class State : std::uint8_t { idle, busy, lost, quiesced } state = State::idle;
  std::uint32_t making = kNone;
  // Slots it might still write after it was lost: free when it is quiet.
  std::vector<Resident> quarantine;
};

struct Node {
  NodeId id;
  bool takes_work = true;
  bool lost = false;
  bool has_memory = false;
  std::vector<std::uint32_t> idle;  // workers, used last in first out
  std::uint32_t workers = 0;        // idle and busy
  std::uint32_t cores = 1;
  std::uint32_t workers_wanted = 0;  // as last ordered by SetWorkers
  std::uint32_t started = 0;         // makings not finished
  std::deque<std::uint32_t> ready;   // makings that wait for a worker only
  double prepare_s = 0;              // smoothed
  double stall_fraction = 0;         // as of late, of the job that stalls most
  Instant stall_measured{};
  std::vector<std::uint32_t> streams;  // that have memory here
  bool has_room = false;               // something could be started here that could not before
  bool changed = false;                // since the scaling policy was last asked
};

// ----------------------------------------------------------------------------------- blocks ----

// Why a block that is not used by a batch may not be evicted.
enum class Charge : std::uint8_t {
  none,
  ahead,    // made ahead of need; counts against what is spare in its share
  current,  // a job waits for it now; one a share, always possible
};

// An empty vector that has kept its memory: for what is used again soon.
template <class T>
std::vector<T> emptied(std::vector<T>& used) {
  used.clear();
  return std::move(used);
}

// A prepared block, in the making or resident.
struct Block {
  std::uint64_t serial = 0;
  std::uint32_t stream = kNone;
  BlockName name;
  LaneSizes sizes;
  BlockRef ref;  // none: made for one job alone: again, after its pass was closed, or to rehearse
  std::shared_ptr<const Rehearsal> rehearsal;  // whose draws it has, if any
  std::uint32_t samples = 0;
  std::uint32_t share = kNone;
  ItemId item;
  SlotId slot;
  NodeId node;
  bool resident = false;
  bool served = false;  // something was delivered from it
  std::uint32_t making = kNone;
  Charge charge = Charge::none;
  std::uint32_t charged_job = kNone;
  std::uint32_t charged_at = 0;  // in that job's list
  std::uint32_t current_at = 0;  // in the list of those charged as current
  std::uint32_t transfers = 0;   // that read from it
  std::uint32_t grants = 0;      // jobs that took it and have not had all of it
  std::uint32_t told_need = 0;   // what its eviction policy was told last
  std::vector<Replacement> replacements;
  Instant since;  // in the making or resident

  void reset() {
    const auto kept = serial;
    *this = Block();
    serial = kept;
  }
};

// An item of a share that must stay until a block is made.
struct ItemPin {
  std::uint32_t share;
  ItemId item;
};

// What a block needs while it is made: reads, a worker, ingredients.
struct Making {
  std::uint32_t block = kNone;
  std::uint32_t job = kNone;  // who asked; for statistics and limits
  std::uint32_t node = kNone;
  std::uint32_t waiting = 0;  // reads and other makings it waits for
  std::uint32_t worker = kNone;
  bool remake = false;
  bool ready = false;  // in the queue for a worker
  RequestId request = RequestId::none();
  std::uint64_t serial = 0;
  std::uint32_t attempts = 0;
  bool preparing = false;               // the worker has its order
  bool corrupt = false;                 // a worker made all of it but what it could not decode
  std::vector<Ingredient> ingredients;  // empty: all samples from one staging read
  std::vector<Ingredient> patch;        // those to prepare again; empty: all
  RequestId staging = RequestId::none();
  std::vector<std::uint32_t> reads;  // whose staging memory it holds
  std::vector<ItemPin> pins;
  std::vector<ItemPin> decoding;          // decoded items it will put into their share
  std::vector<std::uint32_t> dependents;  // makings that wait for its decoded items
  std::vector<std::uint32_t> makers;      // makings whose decoded items it waits for
  // Corrupt samples under treatment: place, the sample in use, how many store reads failed.
  struct Suspect {
    std::uint32_t place;
    SampleId original;
    SampleId used;               // the original, or the one that stands in for it
    std::uint32_t failures = 0;  // of `used`, each on a read of its own from the store
    bool settled = false;        // nothing is known against `used`
  };
  std::vector<Suspect> suspects;
  Instant since;
  Instant prepare_since;
  // The same block in the hands of a second worker, into a slot of its own. The first result is
  // used; `second` says which of the two this is.
  std::uint32_t twin = kNone;
  bool second = false;

  void reset() {
    Making next;
    next.ingredients = emptied(ingredients);
    next.reads = emptied(reads);
    next.pins = emptied(pins);
    next.decoding = emptied(decoding);
    *this = std::move(next);
  }
};

// One Read order, waited for by makings.
struct ReadJob {
  Request request;
  DatasetId dataset;
  Place from;
  Place to;
  Form form = Form::encoded;
  std::uint32_t keep = kNone;    // share
  std::uint32_t source = kNone;  // the share it reads from, if any
  WorkerId held = WorkerId::none();
  bool shared = true;             // others find it
  bool staged = true;             // into staging memory, whether it is kept elsewhere or not
  std::uint32_t node = kNone;     // where it goes
  std::vector<SampleId> samples;  // empty: all of the block's
  Lineage lineage;
  std::vector<std::uint32_t> waiters;  // makings, or listed batches
  std::uint32_t holders = 0;           // of its staging memory
  std::uint32_t attempts = 0;
  bool done = false;
  Instant retry_at = kNever;

  void reset() {
    ReadJob next;
    next.samples = emptied(samples);
    next.waiters = emptied(waiters);
    *this = std::move(next);
  }
};

// ---------------------------------------------------------------------------------- streams ----

// A stream's memory on one node.
struct StreamNode {
  NodeId node;
  std::uint32_t index = kNone;  // of the node
  std::uint32_t share = kNone;
  Slots jobs = 0;        // with ranks on this node
  Slots ranks = 0;       // of them
  Slots reserve = 0;     // ranks x credits of the jobs whose batches live in this share
  bool standby = false;  // no ranks, but a slot was promised, so that blocks can be made here
  Slots ahead = 0;       // blocks charged as made ahead
  Handle current;        // the block charged as current, if any
};

struct Dataset {
  DatasetId id;
  const Catalogue* catalogue = nullptr;
  // Sorted; by pipeline, since a step of one may fail where no other does.
  std::map<std::uint32_t, std::vector<SampleId>> corrupt;
  std::vector<std::uint32_t> streams;  // that use it
  bool kept_always = false;

  const std::vector<SampleId>& corrupt_by(PipelineId pipeline) const {
    static const std::vector<SampleId> kNothing;
    const auto found = corrupt.find(pipeline.value);
    return found == corrupt.end() ? kNothing : found->second;
  }
};

struct Stream {
  StreamId id;
  std::uint32_t dataset = kNone;
  const PipelineInfo* pipeline = nullptr;
  PipelineId pipeline_id;
  Order family = Order::relaxed;  // relaxed stands for strict too; or sequential, weighted
  std::uint64_t seed = 0;
  std::uint64_t sharing_key = 0;
  std::uint32_t block_samples = 1;
  std::uint64_t epoch_samples = 0;  // N, or the draws of a weighted epoch
  Bytes sample_bytes = 1;           // prepared
  Bytes block_bytes = 1;
  std::unique_ptr<Lanes> lanes;
  std::vector<StreamNode> nodes;
  std::vector<std::uint32_t> jobs;
  double prepare_s = 0;  // smoothed

  // Preparations that may turn out to be late, in the order they began.
  struct Begun {
    std::uint32_t making;
    std::uint64_t serial;
    Instant since;
  };
  std::deque<Begun> begun;
  bool watched = false;              // there is an alarm for the first of them
  QuantileSketch preparation_times;  // in nanoseconds

  std::vector<SampleId> scratch;
  Expander expander;           // block names to sample ids
  bool needs_changed = false;  // stands in EngineState::changed_streams
  std::uint64_t stranded =
      0;  // since nobody can prepare for it: the serial of that; 0: somebody can

  void reset() { *this = Stream(); }
};

// ------------------------------------------------------------------------- jobs and batches ----

// A piece of a batch: places of the job's sequence that lie in one block.
struct Piece {
  std::uint64_t place = 0;  // in the sequence that the slice is of
  Slice slice;
  std::uint32_t offset = 0;  // in the batch
  enum class State : std::uint8_t { missing, copying, there } state = State::missing;
  Handle block;  // while copying or delivered in place
  RequestId request = RequestId::none();
};

// What a batch is and how far it has come, which is cleared at once.
struct BatchState {
  std::uint32_t job = kNone;
  Rank rank = 0;
  std::uint64_t step = 0;
  std::uint32_t epoch = 0;
  bool last_of_epoch = false;
  LaneSizes sizes;            // of its blocks
  LaneSizes rehearsed_sizes;  // of those that are rehearsed
  std::uint32_t samples = 0;
  Places uncut;          // of its own places: not granted yet, or not cut into pieces
  bool all_cut = false;  // fillers and what is rehearsed, too
  enum class State : std::uint8_t { assembling, delivering, delivered } state = State::assembling;
  bool in_place = false;
  bool consumed = false;
  bool released = false;
  bool held = false;               // of a step that is void: it only waits to be released
  std::uint32_t reserved = kNone;  // the stream's share whose reserve covers it while it is held
  std::uint32_t numbering = 0;     // of the job's ranks, when it was begun
  std::uint32_t share = kNone;     // of its own slot, when gathered
  bool written = false;            // something was ordered to be copied there
  ItemId item;
  SlotId slot;
  NodeId node;
  RequestId request = RequestId::none();
  std::uint32_t attempts = 0;
  std::uint32_t waiting_reads = 0;
};

struct Batch : BatchState {
  std::shared_ptr<const Rehearsal> rehearsal;
  std::vector<Piece> pieces;
  std::vector<Replacement> replacements;
  std::vector<Ingredient> ingredients;  // a listed order's samples, in order
  std::vector<ItemPin> pins;            // items delivered as they are stored
  std::vector<std::uint32_t> reads;

  void reset() {
    BatchState::operator=({});
    rehearsal.reset();
    pieces.clear();
    replacements.clear();
    ingredients.clear();
    pins.clear();
    reads.clear();
  }
};

struct RankState {
  NodeId node;
  bool lost = false;
  std::uint32_t credits = 0;  // batches asked for and not yet begun
  std::uint64_t next_step = 0;
  std::vector<std::uint32_t> batches;  // begun and not released, oldest first
  std::uint64_t consumed_steps = 0;    // all below are consumed
  StallMeter stall;
};

struct Job {
  JobId id;
  std::uint32_t index = kNone;
  std::uint64_t serial = 0;
  std::uint64_t user = 0;
  std::uint32_t stream = kNone;
  std::uint32_t dataset = kNone;
  Order order = Order::relaxed;
  std::uint32_t batch_samples = 1;
  bool drop_last = false;
  std::uint32_t epochs = 0;
  std::uint64_t steps = 0;  // 0: not known
  std::uint32_t credits = 0;
  double weight = 1;
  MemberId member;
  std::uint32_t lanes_epoch = 0;  // the epoch that its member is running
  std::vector<RankState> ranks;
  std::uint32_t numbering = 0;              // of its ranks: how often it was resized
  std::vector<std::uint32_t> batch_shares;  // a node: where batches larger than a block live
  enum class State : std::uint8_t {
    joining,
    running,
    degraded,
    refused,  // not served any more, but ranks still read what they were handed
  } state = State::joining;
  bool waits = false;          // a rank has a credit that cannot be served now
  bool waits_to_take = false;  // for want of a block that it has not taken yet
  bool dirty = false;

  std::vector<std::uint32_t> held;            // batches of void steps that live ranks still read
  std::vector<std::uint32_t> retired_shares;  // where such batches are, of an earlier size
  struct Reserved {
    NodeId node;
    Slots ranks;
    Slots slots;
  };
  bool waits_for_held = false;     // no room for its new size before those are released
  std::vector<Reserved> reserved;  // what it was promised in the stream's shares

  std::deque<EpochRun> runs;         // oldest uncommitted first; the last one is granting
  std::uint64_t committed_step = 0;  // all below are committed
  Position committed;
  bool contradicts = false;          // what it had does not follow from the position it came with
  std::unique_ptr<Weights> weights;  // weighted orders
  std::unique_ptr<WeightedEpoch> drawn;  // the running epoch of one
  std::uint64_t draws = 0;               // samples of one epoch
  bool multinomial = false;
  bool nothing_to_draw = false;  // all weights are zero
  bool node_local = false;
  std::uint32_t rehearsed = 0;  // m
  ExemplarBuffer exemplars;
  std::vector<Grant> resumed;  // rests of partly used blocks, taken first
  bool lost_grants = false;    // a batch waits for a block that is gone

  std::vector<std::uint32_t> charged;    // blocks charged to it
  std::uint32_t ahead = 0;               // of these, as made ahead
  std::uint32_t makings = 0;             // under way that were started for it
  std::uint64_t served_blocks = 0;       // makings started for it
  std::uint64_t asked = 0;               // when its present need arose
  std::int64_t head_start = 0;           // blocks it counts as having had when it came
  std::uint32_t candidate_slot = kNone;  // in the engine's list of needs
  double step_s = 0;                     // smoothed compute time of a step
  std::uint64_t lost_serial = 0;         // of its present loss of a rank

  void reset() { *this = Job(); }
};

// ------------------------------------------------------------------------------------ state ----

struct EngineState {
  // `explain` outlives it.
  EngineState(const EngineConfig& engine_config, const PolicyList& policies,
              const Catalogues& known, const Explain& explain);

  EngineConfig config;
  const PolicyList& list;
  const Catalogues& catalogues;
  Random random;
  Instant now{};
  EngineCounters counters;

  Arena arena;
  std::vector<Command> commands;
  template <class Command>
  std::decay_t<Command>& order(Command&& command) {
    return std::get<std::decay_t<Command>>(commands.emplace_back(std::forward<Command>(command)));
  }

  Requests requests;
  Alarms alarms;
  Memory memory;

  // Backends' ids are looked up in maps that nothing iterates.
  std::vector<Node> nodes;  // never erased: a node that comes back is a new one
  FlatMap node_of;
  std::vector<Worker> workers;
  std::unordered_map<std::uint32_t, std::uint32_t> worker_of;
  std::vector<Dataset> datasets;
  std::unordered_map<std::uint32_t, std::uint32_t> dataset_of;
  std::unordered_map<std::uint32_t, const PipelineInfo*> pipelines;
  FlatMap job_of;

  Pool<Block> blocks;
  Pool<Making> makings;
  Pool<ReadJob> reads;
  Pool<Stream> streams;
  Pool<Job> jobs;
  Pool<Batch> batches;
  std::uint64_t serials = 0;

  std::vector<std::uint32_t> weighted_jobs;
  std::vector<std::uint32_t> contradicting_jobs;  // to be refused before the step ends
  std::uint64_t samples_gathered = 0;             // looked up in this step
  bool starts_put_off = false;

  // Something could be started that could not before: on these nodes, or anywhere. Whoever makes
  // room says so, for nobody else is looked at again.
  bool room_changed = false;
  bool room_anywhere = false;
  std::vector<std::uint32_t> nodes_with_room;
  void room_everywhere() { room_changed = room_anywhere = true; }
  void room_on(std::uint32_t node) {
    room_changed = true;
    changed_on(node);
    if (!std::exchange(nodes[node].has_room, true)) nodes_with_room.push_back(node);
  }
  void room_on(NodeId node) {
    const std::uint32_t found = node_of.find(node.value);
    if (found != kNone) room_on(found);
  }
  std::vector<std::uint32_t> changed_nodes;  // since the scaling policy was last asked
  void changed_on(std::uint32_t node) {
    if (!std::exchange(nodes[node].changed, true)) changed_nodes.push_back(node);
  }
  std::vector<std::uint32_t> current_blocks;  // charged as such
  bool short_of_memory = false;               // a batch waits for a slot
  std::vector<Resident> evicted;              // by shares, not carried out yet
  std::vector<Slice> slices;                  // scratch
  PermutationCache rehearsed;                 // orders of buffers

  // Streams whose blocks may be needed by others than their policies were told.
  std::vector<std::uint32_t> changed_streams;
  void needs_changed(std::uint32_t stream) {
    if (streams[stream].needs_changed) return;
    streams[stream].needs_changed = true;
    changed_streams.push_back(stream);
  }

  std::vector<std::uint32_t> dirty;  // jobs to look at before the step ends
  void touch(std::uint32_t job) {
    if (!jobs.live(job) || jobs[job].dirty) return;
    jobs[job].dirty = true;
    dirty.push_back(job);
  }
  Block* at(Handle handle) {
    if (handle.index == kNone || !blocks.live(handle.index)) return nullptr;
    Block& block = blocks[handle.index];
    return block.serial == handle.serial ? &block : nullptr;
  }

  // A report about something that is over, and one that cannot be right: both change nothing.
  void stale() { ++counters.stale_completions; }
  void protocol_error() { ++counters.protocol_errors; }

  // With all that was on it: no order goes there.
  bool is_lost(NodeId node) const {
    const auto found = node_of.find(node.value);
    return found == kNone || nodes[found].lost;
  }

  Lineage lineage(const Block& block) const;
  // The samples of a block, and for a weighted order which visit of each it is.
  void expand(const Block& block, std::vector<Draw>& draws);

  // In this step: what came with the join was said before anybody could hear of the refusal.
  std::vector<JobId> refused_joins;

  StepPromises promises;  // of this step, for the promise log
  void promise_joined(const Job& job, const JobJoined& event);
  void promise_resized(const Job& job);
  void promise_committed(const Job& job, std::uint64_t step, std::uint32_t epoch,
                         const std::vector<Slice>& committed);
  void promise_epoch_finished(const Job& job, std::uint32_t epoch);
  void promise_left(const Job& job);
};

}  // namespace batchflow
