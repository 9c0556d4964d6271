// A node that is to end first hands over what it keeps in memory, on its drive and on its GPUs.
// Each sample is copied to its home among the nodes that stay, if there is room in memory or on the
// drive. Until all are copied, samples are found where they were. Then the command LetGo says that
// the node may end.
//
// Prepared blocks are not handed over. They are made again, to the same bytes.
#pragma once

#include <utility>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class HandOver {
 public:
  HandOver(EngineState& state, Reads& reads, ItemShares& item_shares)
      : s_(state), reads_(reads), item_shares_(item_shares) {}

  // The node takes no more work.
  void begin(NodeIndex node);
  // It has ended.
  void forget(NodeIndex node);
  // Copies some, and lets nodes go.
  void go_on();

 private:
  struct Leaving {
    NodeIndex node;
    std::vector<ShareId> shares;  // to be looked through; the last one is under way
    std::uint32_t item = 0;       // of it, the next to look at
    std::vector<std::pair<ReadIndex, RequestId>> reads;
  };
  // What goes to one share of another node, with one read.
  struct Parcel {
    ShareId to;
    std::vector<SampleId> samples;
    Bytes staged = 0;
  };

  bool is_under_way(const Leaving& leaving) const;
  // Copies some of the share. True: there is no more of it to look at.
  bool copy_some(Leaving& leaving, ShareId share);
  // The share of the node that the item can come to; none: it is there, or has no room.
  ShareId room_for(ItemId item, const SharePart& from, const Dataset& dataset,
                   const ItemCache& to) const;
  bool add(ItemId item, const Dataset& dataset, ShareId to);
  PipelineId pipeline_of(const SharePart& part) const;

  EngineState& s_;
  Reads& reads_;
  ItemShares& item_shares_;
  std::vector<Leaving> leaving_;
  std::vector<Parcel> parcels_;  // scratch
  std::vector<ItemId> gone_;     // scratch
};

}  // namespace batchflow::engine
