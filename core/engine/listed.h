// Listed orders: samples wanted by id, in the caller's order, as they are stored.
//
// Access traces are replayed through it (sim/replay.cpp). Each request is one batch. Its samples
// are looked up in memory, each at its home. What is kept on the rank's node is pinned while the
// batch is out. What another node keeps, or is about to keep, is fetched from there. The rest is
// read from the store, and kept at its home if the share there lets it in.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/read_groups.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Listed {
 public:
  Listed(EngineState& state, const ItemShares& item_shares, Reads& reads)
      : s_(state),
        batches_(state.batches.writable_for(this)),
        item_shares_(item_shares),
        reads_(reads) {}

  void wanted(Job& job, const SamplesWanted& event);
  void ready(BatchIndex batch);
  // Nothing comes of a read that the batch waits for. Without a reason its node or a copy is gone.
  void failed(BatchIndex batch, ReadIndex read, std::optional<Refusal> why);
  // Calls `refuse` for each job with a batch that could not be read.
  void refuse_failed(const std::function<void(Job&, Refusal)>& refuse);
  // Looks up anew what reads were to bring of which nothing comes.
  void look_again();

 private:
  // Where the batch's samples go, and from which dataset they are.
  struct Around {
    BatchIndex batch;
    NodeIndex node;
    const Dataset* dataset;
    bool again;  // some of them have been looked up before
  };
  void look_up(BatchIndex batch, bool again);
  void want(const Around& around, std::uint32_t at);
  void pin(const Around& around, ShareId share, ItemId item);
  bool use_under_way(const Around& around, std::uint32_t at);
  void send_reads(const Around& around);

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  const ItemShares& item_shares_;
  Reads& reads_;
  struct Failed {
    JobId job;
    Refusal why;
  };
  std::vector<Failed> failed_;
  std::vector<BatchIndex> to_look_up_;  // anew
  ReadGroups groups_;
  FirstIndices first_indices_;                                   // scratch
  std::vector<std::pair<std::uint32_t, std::uint32_t>> firsts_;  // scratch
  std::vector<ItemId> gone_;                                     // scratch
  std::vector<SampleId> once_;                                   // scratch
};

}  // namespace batchflow::engine
