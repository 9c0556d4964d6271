// What the nodes keep of a stream's samples, before any of them is looked up for a block: nothing,
// all, or which. No policy is told of these looks.
#pragma once

#include <span>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class KeptItems {
 public:
  KeptItems(const EngineState& state, const ItemShares& item_shares, const Reads& reads)
      : s_(state), item_shares_(item_shares), reads_(reads) {}

  // True if Items::look_up need not know the ids: nothing can be cached, shared or corrupt.
  bool plain(const Stream& stream) const;
  // The share on the node that keeps every sample of the stream as it is stored, so that no sample
  // of a block need be looked up. None: there is no such share.
  ShareId whole(const Stream& stream, NodeIndex node) const;
  // What is kept of these samples where blocks of the stream that are made on the node look.
  void show(const Stream& stream, NodeIndex node,
            std::span<const order::ChosenEpoch::Candidate> candidates,
            std::vector<SampleCandidate>& out) const;

 private:
  const EngineState& s_;
  const ItemShares& item_shares_;
  const Reads& reads_;
};

}  // namespace batchflow::engine
