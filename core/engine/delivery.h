// Batches in the hands of ranks, and back to free slots.
//
// A batch is over when its rank has released it, trained on or not. If its step becomes void before
// that, or its job goes on in another stream, a rank that lives may still read it, so the batch is
// held until the rank releases it.
#pragma once

#include "core/engine/assembly.h"
#include "core/engine/commits.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Delivery {
 public:
  Delivery(EngineState& state, Reads& reads, Assembly& assembly, Commits& commits)
      : s_(state),
        batches_(state.batches.writable_for(this)),
        reads_(reads),
        assembly_(assembly),
        commits_(commits) {}

  void wanted(Job& job, const BatchWanted& event);
  void delivered(const DeliveryDone& event);
  void consumed(Job& job, const BatchConsumed& event);
  void released(Job& job, const SlotReleased& event);

  // Ends all batches that are not committed: a rank died, or the job left or was resized.
  void abandon(Job& job, bool all_ranks_gone);
  // The job goes on in another stream: what its ranks have trained on stays until it is released.
  void hold(Job& job);
  void abandon_rank(Job& job, Rank rank);
  void abandon_node(Job& job, NodeId node);

 private:
  void stall_changed(const RankState& rank);
  void free_if_over(Job& job, BatchIndex index);
  void free_held(Job& job, BatchIndex index);
  void take_back(BatchIndex batch);
  void close_delivery(Batch& batch);
  void believe_released(Job& job, Batch& batch);
  bool release_held(Job& job, const SlotReleased& event);

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  Reads& reads_;
  Assembly& assembly_;
  Commits& commits_;
};

}  // namespace batchflow::engine
