// From granted blocks to batches in the hands of ranks, and back to free slots and commits.
//
// A batch inside one block on its rank's node is delivered in place: the block is pinned until the
// rank has released the batch. Any other batch is gathered into a slot of its own, piece by piece
// as its blocks become resident; the rank's reserve covers this slot. So a batch never needs two
// blocks at once, and a job never needs more than its reserve and one block in preparation.
#pragma once

#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Grants;

class Delivery {
 public:
  Delivery(EngineState& state, Grants& grants, Reads& reads)
      : s_(state), grants_(grants), reads_(reads) {}

  // Begins and continues the batches that the job's credits and blocks allow.
  void pump(Job& job);

  void wanted(Job& job, const BatchWanted& event);
  void transferred(const TransferDone& event);
  void delivered(const DeliveryDone& event);
  void consumed(Job& job, const BatchConsumed& event);
  void released(Job& job, const SlotReleased& event);

  // Ends all batches that are not committed: a rank died, or the job left or was resized.
  void abandon(Job& job, bool all_ranks_gone);
  void abandon_rank(Job& job, Rank rank);
  void abandon_node(Job& job, NodeId node);
  // A block is gone or will not come: pieces that were being copied from it start over.
  void lost_block(Handle block);
  std::uint32_t repeats(const Job& job, const Batch& batch) const;
  void order_delivery(Job& job, std::uint32_t batch);
  // Ends the epochs of which all steps are committed; also those that had no steps left.
  void end_epochs(Job& job);

 private:
  void stall_changed(const RankState& rank);
  bool begin(Job& job, Rank rank);
  bool cut(Job& job, EpochRun& run, Batch& batch);
  static void add_pieces(Sequence& sequence, Batch& batch, order::Places places, bool filler);
  void advance(Job& job, EpochRun& run, std::uint32_t index, bool in_turn);
  Grant* grant_in_place(const Job& job, EpochRun& run, const Batch& batch);
  void deliver_in_place(Job& job, Grant& grant, std::uint32_t index);
  void want_again(Job& job, Grant& grant);
  bool gather(Job& job, EpochRun& run, std::uint32_t index);
  bool list_draws(const Job& job, Batch& batch);
  void serve(Job& job, Grant& grant, const Piece& piece);
  void free_if_over(Job& job, std::uint32_t index);
  void free_held(Job& job, std::uint32_t index);
  void unhand(std::uint32_t batch);
  void close_delivery(Batch& batch);
  void believe_released(Job& job, Batch& batch);
  bool release_held(Job& job, const SlotReleased& event);
  bool apply(Job& job, const EpochRun& run);
  void commit(Job& job);
  std::uint32_t batch_share(const Job& job, NodeId node) const;

  EngineState& s_;
  Grants& grants_;
  Reads& reads_;
  std::vector<order::Draw> draws_;  // scratch
};

}  // namespace batchflow::engine
