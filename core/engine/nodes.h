// The nodes: they join, quiesce and are lost, and the capacities of their places change.
#pragma once

#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/membership.h"
#include "core/engine/preparation.h"
#include "core/engine/state.h"
#include "core/engine/streams.h"

namespace batchflow::engine {

class Nodes {
 public:
  Nodes(EngineState& state, ItemShares& item_shares, Preparation& preparation, Streams& streams,
        Membership& membership)
      : s_(state),
        item_shares_(item_shares),
        preparation_(preparation),
        streams_(streams),
        membership_(membership) {}

  void joined(const NodeJoined& event);
  // The node takes no more work. None: there is no such node, or it takes none already.
  NodeIndex quiesced(const NodeQuiesced& event);
  // All that was on the node is gone, and no command goes there. None: there is no such node.
  NodeIndex lost(const NodeLost& event);
  void capacity_changed(const CapacityChanged& event);
  // A worker has joined on the node.
  void worker_joined(NodeId node);

 private:
  NodeIndex slot_for_node();

  EngineState& s_;
  ItemShares& item_shares_;
  Preparation& preparation_;
  Streams& streams_;
  Membership& membership_;
  std::vector<NodeIndex> lost_;  // slots to be used again
  std::uint64_t joined_ = 0;     // counts them
};

}  // namespace batchflow::engine
