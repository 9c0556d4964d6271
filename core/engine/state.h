// What the engine knows, as plain data, shared by its parts.
//
// Every part reads all of it. Each structure, or each group of its fields, belongs to the part that
// a comment names, which alone changes it. `Owned` sees to that for workers, datasets, reads and
// batches; the others keep to the comments. Most books that several parts keep are changed by
// functions: those of EngineState, and those of core/engine/books.h. Things are named by indices
// into pools. A handle (index and serial) notices that what it named is gone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/arena.h"
#include "core/base/flat_map.h"
#include "core/base/pool.h"
#include "core/base/types.h"
#include "core/engine/alarms.h"
#include "core/engine/blocks.h"
#include "core/engine/buffers.h"
#include "core/engine/catalogue.h"
#include "core/engine/engine.h"
#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/engine/jobs.h"
#include "core/engine/memory.h"
#include "core/engine/owned.h"
#include "core/engine/policy_list.h"
#include "core/engine/promise.h"
#include "core/engine/requests.h"

namespace batchflow::engine {

class Assembly;
class Datasets;
class GrowingSources;
class Delivery;
class Listed;
class Reads;
class Reserves;
class Streams;
class Suspects;
class Workers;

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
  std::decay_t<Command>& emit(Command&& command) {
    return std::get<std::decay_t<Command>>(commands.emplace_back(std::forward<Command>(command)));
  }

  Requests requests;
  Alarms alarms;
  Memory memory;

  // Ids of backends are looked up in maps, over which nothing iterates. Slots of nodes and workers
  // that are gone are used again: a node that comes back is a new one. Code that looks at nodes in
  // turn does so in the order in which they joined.
  IndexedVector<Node, NodeIndex> nodes;
  std::uint64_t nodes_changed = 0;  // counts those that joined or were lost
  IndexMap<NodeId, NodeIndex> node_of;
  Owned<IndexedVector<Worker, WorkerIndex>, Workers> workers;
  Owned<IndexedVector<Dataset, DatasetIndex>, Datasets, GrowingSources, Streams, Suspects> datasets;
  IndexMap<DatasetId, DatasetIndex> dataset_of;
  std::unordered_map<std::uint32_t, const PipelineInfo*> pipelines;
  IndexMap<JobId, JobIndex> job_of;

  IndexedPool<Block, BlockIndex> blocks;
  IndexedPool<Making, MakingIndex> makings;
  Owned<IndexedPool<OpenRead, ReadIndex>, Reads> reads;
  IndexedPool<Stream, StreamId> streams;
  IndexedPool<Job, JobIndex> jobs;
  Owned<IndexedPool<Batch, BatchIndex>, Assembly, Delivery, Listed, Reads, Reserves> batches;
  std::uint64_t serials = 0;

  std::vector<JobIndex> weighted_jobs;
  std::vector<JobIndex> contradicting_jobs;  // to be refused before the step ends
  std::vector<JobIndex> moving_jobs;         // their next epoch is to be in another stream
  // After looking up this many samples, a step begins nothing more: each may be the first to touch
  // a page of memory. It is two blocks of the usual size of images; with one block, there would be
  // half as many steps again. Other work counts as so many samples as would take its time.
  static constexpr std::uint64_t kSamplesAStep = 512;
  std::uint64_t samples_looked_up = 0;  // in this step, other work included
  bool starts_put_off = false;
  std::size_t draws_left = 0;  // that may be listed for batches in this step
  // What this step's commands refer to.
  std::vector<std::shared_ptr<const std::vector<SampleId>>> lent;

  // Something could be started that could not before: on these nodes, or anywhere. Code that makes
  // room must say so, because nothing else is looked at again.
  bool room_changed = false;
  bool room_anywhere = false;
  std::vector<NodeIndex> nodes_with_room;
  void room_everywhere() { room_changed = room_anywhere = true; }
  void room_on(NodeIndex node) {
    room_changed = true;
    changed_on(node);
    if (!std::exchange(nodes[node].has_room, true)) nodes_with_room.push_back(node);
  }
  void room_on(NodeId node) {
    const NodeIndex found = node_of.find(node);
    if (!found.is_none()) room_on(found);
  }
  // Staging memory of the nodes is free, or has another size: makings may wait for it.
  std::vector<NodeIndex> nodes_to_stage;
  void staging_changed(NodeIndex node) {
    if (!std::exchange(nodes[node].staging_changed, true)) nodes_to_stage.push_back(node);
  }
  // What streams need of staging memory on the nodes, or their number of workers, has changed.
  std::vector<NodeIndex> nodes_to_plan;
  void plan_staging(NodeIndex node) {
    if (!std::exchange(nodes[node].staging_due, true)) nodes_to_plan.push_back(node);
  }
  // Nothing is read from the store to the nodes any more.
  std::vector<NodeIndex> nodes_to_read_early;
  void store_is_idle(NodeIndex node) {
    if (!std::exchange(nodes[node].store_idle, true)) nodes_to_read_early.push_back(node);
  }
  void sort_by_joining(std::vector<NodeIndex>& some) const {
    std::sort(some.begin(), some.end(),
              [&](NodeIndex a, NodeIndex b) { return nodes[a].joined < nodes[b].joined; });
  }
  std::vector<NodeIndex> changed_nodes;  // since the scaling policy was last asked
  void changed_on(NodeIndex node) {
    if (!std::exchange(nodes[node].changed, true)) changed_nodes.push_back(node);
  }
  std::vector<BlockIndex> current_blocks;  // charged as such
  bool short_of_memory = false;            // a batch waits for a slot
  std::vector<Resident> evicted;           // by shares, not carried out yet
  order::PermutationCache rehearsed;       // orders of buffers
  Buffers buffers;                         // those that the engine fills
  std::uint64_t refused_weights = 0;       // answers of mixture policies
  // Block names to sample ids, for all streams: its tables are bounded, however many streams there
  // are.
  order::Expander expander{std::size_t{32} << 20};

  // Streams with blocks that may be needed by more or fewer jobs than the eviction policies were
  // told.
  std::vector<StreamId> changed_streams;
  void needs_changed(StreamId stream) {
    if (streams[stream].needs_changed) return;
    streams[stream].needs_changed = true;
    changed_streams.push_back(stream);
  }

  // Jobs that began an epoch in this step, which their shares are told before it ends.
  struct BegunEpoch {
    JobIndex job;
    std::uint32_t epoch;
  };
  std::vector<BegunEpoch> begun_epochs;

  std::vector<JobIndex> jobs_to_look_at;  // jobs to look at before the step ends
  void look_at(JobIndex job) {
    if (!jobs.live(job) || jobs[job].to_look_at) return;
    jobs[job].to_look_at = true;
    jobs_to_look_at.push_back(job);
  }
  Block* at(Handle handle) {
    if (handle.index.is_none() || !blocks.live(handle.index)) return nullptr;
    Block& block = blocks[handle.index];
    return block.serial == handle.serial ? &block : nullptr;
  }

  // A policy waits only for time to pass, and is to be asked again at `wanted`. `at` is when it
  // will be asked anyway, as far as is known.
  void ask_again(Instant wanted, Instant& at, Alarm alarm);

  // Count a report about something that is over, and one that cannot be right. Both change nothing.
  void stale() { ++counters.stale_completions; }
  void protocol_error() { ++counters.protocol_errors; }

  // The node is lost, with all that was on it: no command goes there.
  bool is_lost(NodeId node) const {
    const auto found = node_of.find(node);
    return found.is_none() || nodes[found].lost;
  }

  order::Lineage lineage(const Block& block) const;
  // Of a block of the stream that is made from nothing but what its name says.
  order::Lineage lineage(const Stream& stream, const order::LaneSizes& sizes,
                         const order::BlockName& name) const;
  // The samples of a block, and for a weighted order which visit of each it is.
  void expand(const Block& block, std::vector<order::Draw>& draws);

  // Jobs that this step refused to let join. Events that came with such a join were sent before the
  // backend could know of the refusal.
  std::vector<JobId> refused_joins;

  StepPromises promises;  // of this step, for the promise log
  void promise_mixture_changed(const Job& job, const order::MixtureChange& change);
  void promise_joined(const Job& job, const JobJoined& event);
  void promise_resized(const Job& job);
  void promise_committed(const Job& job, std::uint64_t step, std::uint32_t epoch,
                         const std::vector<order::Slice>& committed,
                         const std::vector<std::uint64_t>& indices,
                         const std::vector<KeptExemplar>& kept);
  void promise_buffer(const Buffer& buffer, std::size_t last);  // its last exemplars
  void promise_buffer_gone(const BufferName& name);
  void promise_epoch_finished(const Job& job, std::uint32_t epoch);
  void promise_left(const Job& job);
};

// The state as text: what a person needs to see why nothing moves.
std::string describe(const EngineState& state);

}  // namespace batchflow::engine
