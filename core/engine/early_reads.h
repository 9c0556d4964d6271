// Samples that are read before anything requests them, where a policy wants that.
//
// It happens on nodes to which nothing else is read from the store, so no job waits behind it. Each
// step goes through some samples of the order ahead of a job that reads the dataset. For each
// sample that is not kept, it asks the eviction policy of the share that would keep it
// (EvictionPolicy::read_early).
#pragma once

#include <vector>

#include "core/engine/future.h"
#include "core/engine/item_shares.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class EarlyReads {
 public:
  EarlyReads(EngineState& state, Reads& reads, const ItemShares& item_shares)
      : s_(state), reads_(reads), item_shares_(item_shares), future_(state) {}

  // Commands reads for nodes to which nothing is read.
  void go_on();

 private:
  // How far a share has gone through the order of a job.
  struct Cursor {
    std::uint64_t job = 0;  // its serial
    std::uint64_t epoch = 0;
    std::uint64_t block = 0;   // of the epoch
    std::uint32_t sample = 0;  // of the block
  };
  enum class Found : std::uint8_t { nothing, some, more_to_look_at };

  void go_on(NodeIndex node);
  Found look_ahead(NodeIndex node, DatasetIndex dataset, ShareId share);
  const Job* reader(const Dataset& dataset) const;
  bool settle(Cursor& cursor, const Job& job) const;
  Found look_at_block(NodeIndex node, const Job& job, ShareId share, Cursor& cursor);
  bool may_come(NodeIndex node, const Dataset& dataset, const Stream& stream, ShareId share,
                SampleId sample) const;

  EngineState& s_;
  Reads& reads_;
  const ItemShares& item_shares_;
  Future future_;
  std::vector<Cursor> cursors_;                // by share
  std::vector<SampleId> order_;                // scratch
  std::vector<SampleId> found_;                // scratch
  std::vector<ItemId> gone_;                   // scratch
  std::vector<NodeIndex> looked_at_;           // scratch
  std::vector<const ItemCache*> from_before_;  // scratch
};

}  // namespace batchflow::engine
