// Samples that nodes have kept from before this engine began, as when another coordinator has taken
// over a cluster. A node says what they are. They come into its share of the dataset as soon as the
// share is there and has memory, as far as it has room; the rest is dropped. They may be on other
// nodes than their homes, and are used from where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class KeptBefore {
 public:
  KeptBefore(EngineState& state, ItemShares& item_shares) : s_(state), item_shares_(item_shares) {}

  void kept(const SamplesKept& event);
  // The node has ended.
  void forget(NodeIndex node);
  // Lets some in, where there is a share by now.
  void go_on();

 private:
  struct Found {
    NodeIndex node;
    DatasetIndex dataset;
    std::uint8_t bundle_shift = 0;
    bool is_adopted = false;        // the node knows the share
    std::vector<SampleId> samples;  // the last one is the next to let in
  };
  bool let_in(Found& found, ShareId share, std::size_t& most);

  EngineState& s_;
  ItemShares& item_shares_;
  std::vector<Found> found_;
  std::vector<ItemId> gone_;  // scratch
};

}  // namespace batchflow::engine
