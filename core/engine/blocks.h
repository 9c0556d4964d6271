// Where blocks come from, as plain data: nodes and their workers, the blocks, what is under way to
// make them, and what is read for that.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/rates.h"
#include "core/base/types.h"
#include "core/engine/event.h"
#include "core/engine/indices.h"
#include "core/engine/link.h"
#include "core/engine/memory.h"
#include "core/order/lanes.h"
#include "core/order/order.h"
#include "core/order/rehearsal.h"
#include "core/order/weighted.h"

namespace batchflow::engine {

// ------------------------------------------------------------------------ nodes and workers ----

// Workers alone changes it.
struct Worker {
  WorkerId id;
  NodeIndex node = NodeIndex::none();
  enum class State : std::uint8_t { idle, busy, lost, quiesced } state = State::idle;
  MakingIndex making = MakingIndex::none();
  // Slots that it might still write after it was lost. They are free when it is quiesced.
  std::vector<Resident> quarantine;
};

// Each group of fields is changed by one part alone.
struct Node {
  // Nodes
  NodeId id;
  std::uint64_t joined = 0;  // the n-th that joined: nodes are ordered by it
  bool takes_work = true;
  bool lost = false;
  bool let_go = false;  // ItemShares: it has handed over what it kept
  // Its staging memory; null: the node has reported no memory, or is lost.
  const StagingPart* staging = nullptr;
  std::uint32_t cores = 1;
  std::uint16_t gpus = 0;  // that have reported memory for samples: those with lower numbers

  // Workers
  std::vector<WorkerIndex> staff;  // workers that are not known to be quiet
  std::vector<WorkerIndex> idle;   // of these, used last in first out
  std::uint32_t workers = 0;       // idle and busy

  // Preparation, and SecondWorkers for their makings
  std::uint32_t started = 0;      // makings not finished
  std::deque<MakingIndex> ready;  // makings that wait for a worker only
  double prepare_s = 0;           // smoothed
  SmoothedRate made;              // samples
  SmoothedRate store_bytes;       // Reads: from the store to here

  // Reads: from the store to here, under way
  std::uint32_t store_reads = 0;

  // core/engine/books.h: what comes from other nodes, and what goes to them
  Link in;
  Link out;

  // BlockParts: makings that wait for staging memory, in the order in which they came. Preparation
  // clears them when the node is lost.
  std::deque<MakingIndex> wait_for_staging;

  // Streams: those that have memory here
  std::vector<StreamId> streams;

  // Reserves: jobs with ranks here that were promised memory
  std::vector<JobIndex> jobs;

  // Dispatching
  std::uint32_t workers_wanted = 0;  // as last commanded by SetWorkers
  double stall_fraction = 0;         // as of late, of the job that stalls most
  HeldMean busy;                     // the part of its workers that prepare
  HeldMean waits_for_reads;          // the part that is idle while blocks wait for reads
  // As of `stall_measured`, for each question of the scaling policy.
  double busy_part = 0;
  double waiting_part = 0;
  double wanted_per_s = 0;  // samples that must be made each second so that no job here waits
  double made_per_s = 0;
  Instant stall_measured{};

  // EngineState, by the functions that are named
  bool staging_changed = false;  // stands in nodes_to_stage
  bool staging_due = false;      // plan_staging: stands in nodes_to_plan
  bool has_room = false;         // room_on: something could be started that could not before
  bool changed = false;          // changed_on: since the scaling policy was last asked
  bool store_idle = false;       // store_is_idle: stands in nodes_to_read_early
};

// ----------------------------------------------------------------------------------- blocks ----

// Why a block that is not used by a batch may not be evicted.
enum class Charge : std::uint8_t {
  none,
  ahead,    // made ahead of need; counts against what is spare in its share
  current,  // a job waits for it now; one a share, always possible
};

// An empty vector that keeps the memory of `used`: for what is used again soon.
template <class T>
std::vector<T> emptied(std::vector<T>& used) {
  used.clear();
  return std::move(used);
}

// A prepared block, resident or being made. Preparation and SecondWorkers make it. The functions of
// core/engine/books.h change its charge and its takers, and release it. Grants, Dispatching and
// Preparation count its grants, Assembly and Delivery its transfers.
struct Block {
  std::uint64_t serial = 0;
  StreamId stream = StreamId::none();
  order::BlockName name;
  order::LaneSizes sizes;
  // None: made for one job alone, to rehearse or because its pass was closed.
  order::BlockRef ref;
  std::shared_ptr<const order::Rehearsal> rehearsal;  // of which it has draws, if any
  std::uint32_t samples = 0;
  ShareId share = ShareId::none();
  ItemId item;
  SlotId slot;
  NodeId node;
  bool resident = false;
  MakingIndex making = MakingIndex::none();
  Charge charge = Charge::none;
  JobIndex charged_job = JobIndex::none();
  std::uint32_t charged_at = 0;       // in that job's list
  std::uint32_t current_at = 0;       // in the list of those charged as current
  std::uint32_t transfers = 0;        // that read from it
  std::uint32_t grants = 0;           // jobs that took it and have not had all of it
  std::uint32_t reported_takers = 0;  // what its eviction policy was told last
  std::vector<order::Replacement> replacements;
  Instant since;  // in the making or resident

  void reset() {
    const auto kept = serial;
    *this = Block();
    serial = kept;
  }
};

// An item of a share that must stay until a block is made.
struct ItemPin {
  ShareId share;
  ItemId item;
};

// Why the jobs of a stream cannot go on.
struct StreamFailure {
  StreamId stream;
  Refusal why;
  std::uint64_t needed;
  std::uint64_t available;
};

// What a making, or a batch of a listed order, holds of reads: all of a read that it commanded
// itself, or single samples of other reads.
struct ReadHold {
  ReadIndex read;
  bool all;
};
struct ReadHolds {
  std::vector<ReadHold> reads;
  std::vector<ShownIndex> samples;
};

// What a block needs while it is made: staging memory, reads, a worker, ingredients.
//
// Preparation makes and releases it. BlockParts keeps its turn for the next part, Items and Reads
// what the part is made of, Suspects `suspects`, and SecondWorkers `other_making`.
//
// The block is made part by part. The samples of a part are looked up once there is staging memory
// for all that has to be read. When a worker has prepared them, that memory is free again. A block
// that fits is one part.
struct Making {
  BlockIndex block = BlockIndex::none();
  JobIndex job = JobIndex::none();  // that asked; for statistics and limits
  NodeIndex node = NodeIndex::none();
  std::uint32_t waiting = 0;  // staging memory, reads and other makings it waits for
  WorkerIndex worker = WorkerIndex::none();
  bool remake = false;
  bool ready = false;  // in the queue for a worker
  RequestId request = RequestId::none();
  std::uint64_t serial = 0;
  std::uint32_t attempts = 0;
  bool preparing = false;               // the worker has its command
  bool cancelled = false;               // the worker was told to give it up, and will report that
  bool waits_for_staging = false;       // in the queue for staging memory
  std::vector<order::Draw> draws;       // of the block, as long as some are to be looked up
  std::uint32_t next = 0;               // the first index that is in no part yet
  std::uint64_t part = 0;               // serial of the present part
  bool whole = false;                   // which is all of the block
  bool mends = false;                   // which are samples that could not be decoded
  double prepared_s = 0;                // by workers so far
  std::vector<Ingredient> ingredients;  // of the part; empty: all samples from one staging read
  RequestId staging = RequestId::none();
  ReadHolds held;
  Bytes set_apart = 0;  // staging memory, for what others decode: if they fail it must be read
  std::vector<ItemPin> pins;
  ShareId pinned_all = ShareId::none();  // a share of which it uses all items
  // Samples at these indices are kept as they are stored, unless an ingredient of the command says
  // otherwise.
  std::uint32_t kept_from = 0;
  std::uint32_t kept_to = 0;
  std::vector<ItemPin> decoding;        // decoded items it will put into their share
  std::vector<MakingIndex> dependents;  // makings that wait for its decoded items
  std::vector<MakingIndex> makers;      // makings that decode items it waits for
  // Corrupt samples under treatment: the index, the sample in use, how many reads of the store
  // failed.
  struct Suspect {
    std::uint32_t index;
    SampleId original;
    SampleId used;                 // the original, or what stands in for it
    std::uint32_t failures = 0;    // of `used`, each on a read of its own from the store
    bool settled = false;          // nothing is known against `used`
    std::uint32_t occurrence = 0;  // of the original
  };
  std::vector<Suspect> suspects;
  Instant prepare_since;
  // The same block being made by a second worker, into a slot of its own. The first result is used.
  // `second` says which of the two this is.
  MakingIndex other_making = MakingIndex::none();
  bool second = false;

  void reset() {
    Making fresh;
    fresh.ingredients = emptied(ingredients);
    fresh.draws = emptied(draws);
    fresh.held.reads = emptied(held.reads);
    fresh.held.samples = emptied(held.samples);
    fresh.pins = emptied(pins);
    fresh.decoding = emptied(decoding);
    *this = std::move(fresh);
  }
};

// One Read command, for which makings wait. Reads alone changes it.
struct OpenRead {
  Request request;
  DatasetId dataset;
  Place from;
  Place to;
  Form form = Form::encoded;
  ShareId keep = ShareId::none();    // share
  ShareId source = ShareId::none();  // the share it reads from, if any
  WorkerId held = WorkerId::none();
  bool shared = true;                  // others find it
  bool staged = true;                  // into staging memory, whether it is kept elsewhere or not
  NodeIndex node = NodeIndex::none();  // where it goes
  std::vector<SampleId> samples;       // empty: all of the block's
  std::vector<SampleId> missing;       // after an attempt that failed in part; empty: all of them
  std::uint8_t bundle_shift = 0;  // each of `samples` begins a bundle of 2^bundle_shift samples
  bool in_part = false;           // some of it may be there
  order::Lineage lineage;
  std::vector<std::uint32_t> waiters;  // makings, or listed batches
  std::uint32_t holders = 0;           // makings or batches that hold any of it
  std::uint32_t owners = 0;            // of these, those that hold all of it
  // By sample, if others may hold some of them; none: released already.
  std::vector<ShownIndex> shown;
  bool listed = false;  // for batches of listed orders: their memory is set apart
  Bytes each = 0;       // a sample's staging memory, where all have the same; 0: by the catalogue
  Bytes counted = 0;    // what it takes of the staging memory for blocks
  // Reads of what it brings to another node. They begin when it is done.
  struct Follower {
    ReadIndex read;
    RequestId id;  // of its request: else the read is over, and another has its index
  };
  std::vector<Follower> followers;
  OnWay on_way;  // of its present attempt, from another node
  std::uint32_t attempts = 0;
  bool sent = false;  // else it follows another read
  bool done = false;
  bool failed = false;  // it brings nothing

  void reset() {
    OpenRead next;
    next.samples = emptied(samples);
    next.shown = emptied(shown);
    next.missing = emptied(missing);
    next.waiters = emptied(waiters);
    next.followers = emptied(followers);
    *this = std::move(next);
  }
};

}  // namespace batchflow::engine
