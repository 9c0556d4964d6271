// Listed orders: samples wanted by id, in the caller's order, as they are stored.
//
// Access traces are replayed through it (sim/replay.cpp). Each request is one batch. Its samples
// are looked up in the encoded shares, read where they are missing, and pinned while the batch is
// out.
#pragma once

#include <functional>
#include <optional>
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
  void failed(BatchIndex batch, std::optional<Refusal> why);
  // Calls `refuse` for each job with a batch that could not be read.
  void refuse_failed(const std::function<void(Job&, Refusal)>& refuse);

 private:
  void want(BatchIndex batch, NodeIndex node, DatasetId dataset, SampleId sample, Bytes bytes,
            std::uint64_t next_use);
  bool use_under_way(BatchIndex batch, NodeIndex node, DatasetId dataset, SampleId sample);
  void send_reads(BatchIndex batch, NodeIndex node, DatasetId dataset);

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  const ItemShares& item_shares_;
  Reads& reads_;
  struct Failed {
    JobId job;
    Refusal why;
  };
  std::vector<Failed> failed_;
  ReadGroups groups_;
  FirstIndices first_indices_;  // scratch
  std::vector<ItemId> gone_;    // scratch
  std::vector<SampleId> once_;  // scratch
};

}  // namespace batchflow::engine
