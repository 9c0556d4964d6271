// The seven kinds of policy. A policy proposes and the engine disposes. A policy answers with an
// id, an index or shares; the engine checks the answer, applies it and counts it. A proposal that
// breaks a rule is refused and counted, and can never corrupt the engine: a built-in default
// answers that question instead, so that a wrong answer stops no job.
//
// Hooks tell the policy facts. Questions must be answered at once, and may change the policy's
// state. No policy sees residency tables, pins or events, and none may keep a reference to a view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/parameters.h"
#include "core/base/random.h"
#include "core/base/types.h"
#include "core/engine/exemplar.h"

namespace batchflow::engine {

// What policies of all kinds have.
//
// Plugins hand objects of these classes to the engine as they are. So a new function comes behind
// the last one of its class, and this class gets none. Parameters and answers are plain values,
// spans of them, or references to them.
class Policy {
 public:
  virtual ~Policy() = default;
  // Writes what a later instance of the same name may use when it takes over from this one: another
  // version of a plugin, or the same with other parameters. Returns how many bytes that is; if they
  // are more than there is room for, it writes none.
  virtual std::size_t save(std::span<std::byte> /*room*/) const { return 0; }
  // Takes over from an instance that saved this; called at most once, before anything else. What it
  // does not understand it leaves.
  virtual void restore(std::span<const std::byte> /*saved*/) {}
};
inline constexpr std::size_t kSavedMost = std::size_t{64} << 10;

// ---------------------------------------------------------------------------------- eviction ----

inline constexpr std::uint64_t kUnknownUse = UINT64_MAX;     // the next use is not known
inline constexpr std::uint64_t kNeverUsed = UINT64_MAX - 1;  // known not to be used again

struct Access {
  ItemId item;
  Slots slots = 1;  // the item's size; frozen while it is resident
  // When any job that uses the share requests it next: an index in the sequence of requests where
  // jobs list their samples, else an instant in nanoseconds, as far as orders tell it. Only
  // policies that say so are told (PolicyEntry::next_uses), and only of shares that may have to
  // evict.
  std::uint64_t next_use = kUnknownUse;
  // The item is a bundle of a run: the job requests it this many times, this time included, before
  // it turns to other parts of its dataset. 1: nothing of that kind is known.
  std::uint32_t run = 1;
  Instant at{};               // now
  JobId job = JobId::none();  // for which the item is requested
  // Of an encoded item: its sample is kept decoded on this node, or is about to be.
  bool kept_decoded = false;
};

// What to do with an item that was asked for and is not here.
enum class Admission : std::uint8_t {
  insert,
  bypass,  // serve it once, keep nothing, evict nothing
  // Evict as if for insertion, but keep the item out (S3-FIFO, with an item as large as its small
  // queue). Naming no victim ends it early (Belady, when all items needed later have left).
  make_room,
  // As insert, but evict until the policy names no victim, even if there is room before (2Q: its
  // main part has a bound of its own).
  trim_and_insert,
};

enum class Removal : std::uint8_t {
  evicted,      // the policy's own proposal, carried out
  invalidated,  // lost with its place, dropped by the engine, or named by no job any more
};

// Read parameters while the policy is made: the reference does not outlast that.
struct EvictionContext {
  std::size_t items;  // ids are dense, in [0, items)
  Slots capacity;
  Random random;
  const Parameters& parameters;
  // What the share keeps, and where. Replays of traces have a share of their own: stored samples in
  // memory.
  Form form = Form::encoded;
  Tier tier = Tier::dram;
  DatasetId dataset{};
  const void* plugin = nullptr;  // PolicyEntry::plugin
  bool shadow = false;           // nothing that it answers is carried out
};

// Whether an item is to be read before anything requests it.
enum class EarlyRead : std::uint8_t {
  no,
  yes,   // it is inserted as it would be in a request; what leaves for it is asked of `victim`
  stop,  // no, nor anything behind it, as things are now
};

// One instance serves one share. For a request the calls are: `hit`, when the item is resident.
// Else `missed`; if that answers insert (or make_room) and the item is no larger than the share,
// `victim` until the item fits, each followed by `removed`; then `inserted`.
//
// The engine takes two liberties, which every policy must bear. An item may be inserted whatever
// `missed` answered: a prepared block must be somewhere, and a resident is adopted after a swap. An
// item may be left out although it was to be inserted, because the rest is pinned. `removed` may
// come at any time. An item has at least one slot and fewer than 2^32.
class EvictionPolicy : public Policy {
 public:
  virtual void hit(const Access& access) = 0;
  // The lookup's side effects happen here: a ghost is consumed, a sketch is fed. It is also called
  // for an item larger than the share.
  virtual Admission missed(const Access& access) = 0;
  virtual void inserted(const Access& access) = 0;
  // The resident that is to leave for `newcomer`, or none. Answering none keeps the newcomer out.
  // If the item enters whatever the policy answers, `newcomer.item` is none. The policy may reorder
  // what it keeps, but forgets the victim only when `removed` says so.
  virtual ItemId victim(const Access& newcomer) = 0;
  virtual void removed(ItemId item, Removal why) = 0;
  // The victim just named is pinned. It stays, and the policy puts it where `victim` does not meet
  // it. The next call about it is `unpinned`, after which it is again the next to leave. Both must
  // be O(1) or O(log n): a walk over the pinned items would make steps long.
  virtual void pinned(ItemId item) = 0;
  virtual void unpinned(ItemId item) = 0;

  // The share's size changed. The engine evicts what is too much: it asks `victim`, with a newcomer
  // that is no item (ItemId::none(), no slots).
  virtual void resized(Slots capacity) = 0;
  // From now on ids in [0, items) may be named; there were fewer before.
  virtual void grow(std::size_t items) = 0;
  // From now on `item` names something else: forget its ghosts and counts. It is not resident.
  virtual void forget(ItemId item) = 0;
  // How many jobs still need a resident item (prepared blocks, known exactly).
  virtual void needed(ItemId, std::uint32_t /*jobs*/) {}
  // An item has a new importance, resident or not.
  virtual void scored(ItemId, float /*score*/) {}
  // A job that uses this share began an epoch.
  virtual void epoch_began(JobId, std::uint32_t /*epoch*/) {}
  // The item is about to be requested, or to come in: a policy of many items may load the memory
  // that it will look at.
  virtual void prefetch(ItemId) const {}
  // Asked of items that are not resident, in the order in which a job comes to them, while nothing
  // else is read from the store to the node. Only policies that say so are asked
  // (PolicyEntry::reads_early), of samples as they are stored.
  virtual EarlyRead read_early(const Access& /*access*/) { return EarlyRead::no; }
  // True: `announced` shows it what a block is about to request, in that order, as far as that can
  // be foreseen. Other requests may come in between, and some of these may never come.
  virtual bool wants_announcements() const { return false; }
  virtual void announced(std::span<const Access>) {}
};

// -------------------------------------------------------------------------------- allocation ----

// What an allocation policy knows of one share of a place. "Of late": over the last ten seconds or
// so. A measured figure is 0 until it is known.
struct ShareView {
  ShareId share;
  Form form;
  DatasetId dataset;
  Bytes slot_bytes;
  Slots slots_now;
  Slots slots_used;
  Slots slots_least;  // what the engine has promised; less is raised to it
  Slots slots_ahead;  // beside it, what workers of single jobs fill ahead of need
  Slots slots_all;    // what the whole dataset in this form (or the stream's window) would take
  std::uint64_t samples_all;  // of the dataset, or of the stream's epoch
  // The jobs that read from it, and their ranks on the node.
  std::uint32_t jobs;
  std::uint32_t ranks;
  double weight;          // of their stalls, together
  double stall;           // the part of their time that they wait, of late, by weight
  double wanted_per_s;    // samples that they would train on if they never waited
  double made_per_s;      // samples that were made for them of late, anywhere
  double requests_per_s;  // of items, of late
  double hit_ratio;       // of late
  double worker_s;        // worker time that each sample found here saves
  double store_bytes;     // bytes that each sample found here saves the store
  // Prepared: the most blocks here that some job had yet to take, since this was shown last. And
  // how many blocks a second had to be made again of late.
  Slots slots_needed;
  double remade_per_s;
};

struct PlaceView {
  Place place;
  Bytes capacity_bytes;
  std::span<const ShareView> shares;
  Instant now{};
  // Of the place's node, of late.
  std::uint32_t workers = 0;
  double busy = 0;               // the part of its workers that prepare
  double waits_for_reads = 0;    // the part that is idle while blocks wait for what is read
  double store_bytes_per_s = 0;  // what it reads from the store
};

// What an allocation policy expects of a place until it is asked again. Where decisions are
// explained, it is compared with what came true.
struct Forecast {
  double busy = -1;               // the part of its workers that prepare; below 0: nothing is said
  double store_bytes_per_s = -1;  // that it reads from the store; likewise
};

class AllocationPolicy : public Policy {
 public:
  // Fills `slots`, one entry for each share of `place`; they are zero before. Zero keeps a form out
  // of the place. The engine raises each entry to its least, and refuses an answer that needs more
  // bytes than the place has. It is asked when jobs, shares or the place have changed.
  virtual void allocate(const PlaceView& place, std::span<Slots> slots) = 0;
  // When to ask again for the place it was just asked about, though nothing of that has changed.
  virtual Instant ask_again() { return kNever; }
  // False: what is measured of jobs, streams and the node stays 0, which saves a look at each job.
  virtual bool wants_measures() const { return false; }
  // What it expects of its last answer.
  virtual Forecast forecast() const { return {}; }
};

// --------------------------------------------------------------------------------- selection ----

// A block that the order allows a job to take next.
struct SelectionCandidate {
  std::uint32_t distance;   // blocks from the oldest one the job has not taken
  bool ready;               // resident and whole; only these may be chosen
  std::uint32_t needed_by;  // jobs that still need it, this one included
  double ready_s;           // how long it has been ready
};

struct SelectionView {
  JobId job;
  Order order;
  std::span<const SelectionCandidate> candidates;  // by distance, at most ready_window
  Instant now{};
  std::uint64_t user = 0;  // a hash of the job's user
};

inline constexpr std::size_t kNoChoice = SIZE_MAX;

// A sample of which a job's next block may be made.
struct SampleCandidate {
  SampleId sample;
  std::uint32_t passed_over;  // how many blocks were made without it while it was a candidate
  // Kept where the block will look for it, or on its way there.
  bool decoded;
  bool encoded;
  Bytes bytes;  // as it is stored
};

struct SamplesView {
  JobId job;
  std::uint32_t epoch;
  std::uint64_t left;  // samples of the epoch that no block has, these among them
  // In a random order, but those that were passed over come first.
  std::span<const SampleCandidate> candidates;
  Instant now{};
};

class SelectionPolicy : public Policy {
 public:
  // The index of the candidate the job takes now, or kNoChoice to wait.
  virtual std::size_t choose(const SelectionView& view) = 0;
  // False: the policy never takes a block behind the first ready one, and is shown none, which is
  // faster.
  virtual bool looks_behind_ready() const { return true; }
  // When to ask again, if the policy lets the job wait only for time to pass. Asked after each
  // kNoChoice. kNever: it waits for something to happen.
  virtual Instant ask_again() { return kNever; }

  // Not 0: the policy chooses of which samples the blocks of a relaxed job are made, and is shown
  // as many candidates as so many blocks have samples, but at most 8,192. The job has an order of
  // its own then, takes its blocks in turn, and shares none. Each of its samples still comes once
  // an epoch.
  virtual std::uint32_t blocks_to_choose_from() const { return 0; }
  // Fills `picks` with different indices of candidates, for a block that is about to be made.
  virtual void choose_samples(const SamplesView& /*view*/, std::span<std::uint32_t> picks) {
    for (std::uint32_t i = 0; i < picks.size(); ++i) picks[i] = i;
  }

  // Sets the weights of scores that a job has reported at once, as a rule those of one batch. A
  // weighted order draws its next epochs by weight, and eviction policies are told the weight as
  // the score.
  virtual void weigh(JobId /*job*/, std::span<const float> scores, std::span<float> weights) {
    for (std::size_t i = 0; i < scores.size(); ++i) weights[i] = scores[i];
  }
  // A job began an epoch.
  virtual void epoch_began(JobId, std::uint32_t /*epoch*/) {}
};

// ---------------------------------------------------------------------------------- dispatch ----

// A block that some job needs made. There is at most one candidate a job.
struct WorkCandidate {
  JobId job;  // that needs it first
  StreamId stream;
  std::uint64_t asked;      // order in which the needs arose; unique
  std::uint32_t distance;   // blocks the job has before it will need this one; 0: it waits
  std::uint32_t depth;      // the look-ahead depth the scaling policy gave the job
  Instant deadline;         // when the job is expected to need it
  std::uint32_t waiting;    // ranks that wait for a batch right now
  std::uint32_t needed_by;  // jobs of the stream that will use the block
  // How many blocks the job is ahead of the slowest job of its stream. For a job that came later,
  // what the others had before does not count.
  std::uint32_t lead;
  double cached;              // fraction of the dataset, and so of its samples, that caches keep
  double prepare_s;           // expected time of its preparation
  double stall_fraction;      // stall / (stall + compute) of its worst rank since its ranks came
  std::uint64_t last_served;  // order in which jobs last had a block started; 0: it never had
  double weight;              // of the job's stalls
  Duration latency_target;    // how long after the deadline the job may wait without harm
  double recent_stall;        // the part of its time that its first rank waited, of late
  double wanted_per_s;        // samples that it would train on if it never waited; 0: not known yet
  std::uint64_t blocks_left;  // of its epoch, not taken yet
  // Of the stream: the bytes of a block, and how many blocks there may be on all nodes.
  Bytes block_bytes;
  Slots window;
  bool remake;             // the block was made before, and dropped or lost
  std::uint64_t user = 0;  // a hash of the job's user
};

struct DispatchView {
  Instant now;
  std::span<const WorkCandidate> candidates;
};

// A node on which a block may be made now.
struct NodeCandidate {
  NodeId node;
  std::uint32_t ranks;    // of the job
  std::uint32_t workers;  // that prepare
  std::uint32_t started;  // blocks that are read or prepared
  std::uint32_t ahead;    // blocks of the job that are there, not taken yet
  double kept;            // the part of the dataset that is in its memory, as it is stored
  // Its link, which carries samples that other nodes keep, and blocks to ranks of other nodes: how
  // fast bytes came to it and went of late, and how many are on the way now. Requests side by side
  // share a link, so each is slower than the link is. A rate is 0 until it is known, and after a
  // minute without any.
  std::uint64_t in_per_s = 0;
  std::uint64_t out_per_s = 0;
  Bytes coming = 0;
  Bytes going = 0;
  // If the block is made here: about how much of it is read from other nodes, and how much goes to
  // ranks of other nodes.
  Bytes to_fetch = 0;
  Bytes to_send = 0;
};

struct NodesView {
  const WorkCandidate& work;
  std::span<const NodeCandidate> candidates;
};

class DispatchPolicy : public Policy {
 public:
  // The index of the candidate to start now, or kNoChoice to hold all of them back. It is asked
  // again after each start while there is room for another, and in each step while it holds all
  // back.
  virtual std::size_t next(const DispatchView& view) = 0;
  // When to ask again, if the policy holds all back only for time to pass. Asked after each
  // kNoChoice. kNever: it waits for something to happen.
  virtual Instant ask_again() { return kNever; }
  // False: the engine chooses the node: one with ranks of the jobs that take the block, and of
  // these the least busy.
  virtual bool chooses_nodes() const { return false; }
  // The index of the node that makes the block which `next` has named.
  virtual std::size_t choose_node(const NodesView& /*view*/) { return 0; }
};

// ----------------------------------------------------------------------------------- scaling ----

struct NodeView {
  NodeId node;
  std::uint32_t workers_now;
  std::uint32_t workers_most;  // cores given to preparation
  std::uint32_t busy;
  std::uint32_t ready_to_prepare;  // blocks that wait for a worker
  double prepare_s;                // smoothed time of one preparation
  double stall_fraction;           // of the job that stalls most of those with ranks here
  Instant now{};
  double busy_part = 0;        // of its workers, those that prepare, of late
  double waits_for_reads = 0;  // the part that is idle while blocks wait for reads, of late
  double made_per_s = 0;       // samples that its workers made, of late
  // Samples that would have to be made for its ranks so that none of them waits. Jobs that share
  // blocks count as the fastest of them.
  double wanted_per_s = 0;
};

struct JobView {
  JobId job;
  std::uint32_t ranks;
  double step_s;     // smoothed compute time of one step
  double prepare_s;  // smoothed preparation time of one block of its stream
  double blocks_per_step;
  double stall_fraction;  // of its first rank
  std::uint32_t window;   // the slots of its stream's shares, at most look_ahead_most
  Instant now{};
  double weight = 1;        // of its stalls
  double wanted_per_s = 0;  // samples that it would train on if it never waited
  std::uint64_t user = 0;   // a hash of the job's user
};

class ScalingPolicy : public Policy {
 public:
  // How many workers a node should have; asked when something has changed on it. At most
  // `workers_most`, and at least one while there are jobs. An answer outside is cut and counted.
  virtual std::uint32_t workers(const NodeView& view) = 0;
  // How many blocks the engine keeps ready or in preparation ahead of the job, at most `window`. 0
  // makes a block only when the job waits for it.
  virtual std::uint32_t depth(const JobView& view) = 0;
};

// ------------------------------------------------------------------------------- rehearsal ----

// An exemplar, or a sample that may become one, as a policy is shown it.
struct RehearsalView {
  const Exemplar& exemplar;
  // Of this sample in this buffer, and of no other: uniform over 64 bits, and the same each time.
  // So a policy that keeps the samples with the smallest numbers keeps a uniform choice of those
  // that it was shown, however often and in whatever order they came.
  std::uint64_t number;
  std::span<const float> features;  // empty: none were reported
};

// Which samples are kept for rehearsal, of those that jobs have had. One instance serves one
// buffer.
//
// A service that begins anew makes the policy anew and calls `put` for each exemplar that it had.
// From then on the policy must choose as it would have done, but for what it knew of features.
class RehearsalPolicy : public Policy {
 public:
  // A job has had the sample in a committed step, and the buffer does not have it. Answers the
  // index of the exemplar that it replaces; or the number of exemplars, to keep it beside these
  // while there is room; or kNoChoice. `random` is of this visit.
  virtual std::size_t choose(const RehearsalView& sample, Random random) = 0;
  // The exemplar at `index` is this one from now on, with this score. Without features, the earlier
  // ones hold if it is the same sample.
  virtual void put(std::size_t index, const RehearsalView& exemplar) = 0;
  // True: exemplars are drawn by their weights.
  virtual bool weighs() const { return false; }
  virtual float weight(const Exemplar& /*exemplar*/) const { return 1; }
};

struct RehearsalContext {
  std::size_t capacity;  // of the buffer; at least 1
  const Parameters& parameters;
  const void* plugin = nullptr;  // PolicyEntry::plugin
};

// -------------------------------------------------------------------------------- mixture ----

// What a mixture policy knows of one source of a job's mixture.
struct SourceView {
  std::uint64_t samples = 0;  // that it has
  std::uint64_t drawn = 0;    // from it, in committed steps
  double weight = 0;          // that it has now; those of all sources sum to 1
  // The mean of the losses that ranks have reported since the policy was asked last; where there
  // were none, the mean of before. Unknown: none was reported since the job came.
  bool is_known = false;
  double loss = 0;
  std::uint32_t reports = 0;  // since the policy was asked last
};

struct MixtureView {
  JobId job;
  std::uint64_t drawn = 0;  // samples of all sources, in committed steps
  std::span<const SourceView> sources;
};

// Sets the weights of the sources of a job's mixture, by the losses that its ranks report. One
// instance serves one job.
//
// Weights are promised, and policies are not: a service that begins anew makes the policy anew, and
// it goes on from the weights that it is shown.
class MixturePolicy : public Policy {
 public:
  // After how many samples of the job it is asked again; at least 1.
  virtual std::uint64_t every() const = 0;
  // Sets the weights from now on: finite numbers, none below 0, at least one above 0. `weights`
  // comes with the present ones.
  virtual void weigh(const MixtureView& view, std::span<double> weights) = 0;
};

struct MixtureContext {
  std::size_t sources;  // of the mixture; at least 1
  const Parameters& parameters;
  const void* plugin = nullptr;  // PolicyEntry::plugin
};

struct PolicyContext {
  Random random;
  const Parameters& parameters;
  const void* plugin = nullptr;  // PolicyEntry::plugin
};

}  // namespace batchflow::engine
