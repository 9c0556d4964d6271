// The streams: which there are, on which nodes they have memory, and when they end.
//
// A stream has a share on each node where it has ranks, and on the nodes that help it. It is freed
// when it has no jobs and nothing uses its blocks.
#pragma once

#include <span>
#include <vector>

#include "core/engine/assembly.h"
#include "core/engine/item_shares.h"
#include "core/engine/node_ranking.h"
#include "core/engine/preparation.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Streams {
 public:
  Streams(EngineState& state, ItemShares& item_shares, Preparation& preparation, Assembly& assembly)
      : s_(state),
        datasets_(state.datasets.writable_for(this)),
        item_shares_(item_shares),
        preparation_(preparation),
        assembly_(assembly),
        ranking_(state) {}

  // How many samples the configuration has in a block of the job.
  static std::uint32_t planned_block_samples(const EngineState& s, const JobJoined& event);
  // The stream of a job that joins: one that is there, or a new one.
  // `chosen`: a policy chooses the samples of the job's blocks.
  StreamId stream_for(const JobJoined& event, const order::Position& position, bool chosen);
  void cover_nodes(Stream& stream, std::span<const NodeId> ranks);
  // Opens the shares in which nodes keep the samples of the stream's dataset. True: some are new,
  // and then the caches of the dataset must be settled.
  bool open_homes(Stream& stream, std::span<const NodeId> ranks);
  void size_lanes(Stream& stream);
  void close_if_empty(StreamId stream);

  // The configuration of what streams, nodes and workers share has changed.
  void sharing_changed();
  // Promises the stream's share on a node what it needs now.
  void promise(const StreamNode& part);
  // Promises streams a slot on nodes that may have become able to prepare for them. True if any
  // promise was made.
  bool stand_by();
  void give_up_standby(Place place);
  // Finds streams for which no node can prepare any more.
  void find_stranded();
  // Frees the streams that no job uses, if their blocks may be dropped now. True if any is gone.
  bool free_unused();

  // The node may have become able to prepare. `new_helper`: for some stream it could not do so.
  void node_changed(NodeIndex node, bool new_helper) {
    helpers_due_ = helpers_due_ || new_helper;
    standby_nodes_.push_back(node);
  }
  // A node can no longer prepare, or not as well.
  void workers_gone() { stranded_due_ = true; }
  // All that streams have on the node is gone.
  void lose_node(NodeId node);
  void begin_step();

 private:
  StreamId make_stream(const JobJoined& event, const order::Position& position, std::uint64_t key,
                       std::uint32_t block_samples);
  static Bytes sample_bytes(const EngineState& s, const JobJoined& event);
  std::uint32_t block_samples(const JobJoined& event, const order::Position& position) const;
  bool add_helpers(Stream& stream);
  bool add_node(Stream& stream, NodeId node);
  bool stand_by(const Node& node);
  bool try_free(StreamId stream);
  void drop_unused(const StreamNode& part);
  void lose_blocks(Stream& stream, NodeId node);

  EngineState& s_;
  IndexedVector<Dataset, DatasetIndex>& datasets_;
  ItemShares& item_shares_;
  Preparation& preparation_;
  Assembly& assembly_;
  NodeRanking ranking_;
  // These streams, or any at all, may have lost, or found, the workers that prepare for them.
  std::vector<StreamId> maybe_stranded_;
  bool stranded_due_ = false;
  // Nodes on which streams may be promised a slot that were not before.
  std::vector<NodeIndex> standby_nodes_;
  bool helpers_due_ = false;       // a node can prepare that could not before
  std::vector<StreamId> closing_;  // without jobs
  std::size_t drops_left_ = 0;     // how much one step drops at most
};

}  // namespace batchflow::engine
