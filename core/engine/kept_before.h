// Samples that nodes have kept from before this engine began, as when another coordinator has taken
// over a cluster: in memory, as they are stored or decoded, and on drives. A node says what they
// are. They come into the node's share of the dataset and form as soon as it has room at all; those
// that do not fit are dropped. They may be on other nodes than their homes, and are used from where
// they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class KeptBefore {
 public:
  KeptBefore(EngineState& state, ItemShares& item_shares) : s_(state), item_shares_(item_shares) {}

  void kept(const SamplesKept& event);
  // The node has ended.
  void forget(NodeIndex node);
  // Lets some in, where there is a share by now. True: more follow in the next step, and what is
  // begun before would read them again.
  bool go_on();

 private:
  struct Found {
    NodeIndex node;
    DatasetIndex dataset;
    SamplesKept what;               // without its samples
    bool is_adopted = false;        // the node knows the share
    std::vector<SampleId> samples;  // the last one is the next to let in
  };
  bool makes_sense(const SamplesKept& event, DatasetIndex dataset) const;
  Found* find(NodeIndex node, DatasetIndex dataset, const SamplesKept& event);
  ShareId share_of(const Found& found) const;
  bool let_in(Found& found, ShareId share, std::size_t& most);

  EngineState& s_;
  ItemShares& item_shares_;
  std::vector<Found> found_;
  bool has_more_ = false;        // for shares that are there
  std::uint32_t held_up_ = 0;    // for so many steps
  std::uint64_t looked_at_ = 0;  // the shares, as of so many changes of their sizes
  std::vector<ItemId> gone_;     // scratch
};

}  // namespace batchflow::engine
