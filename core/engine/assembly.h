// Batches on their way out: they are begun, cut from the job's sequence, gathered or delivered in
// place.
//
// A batch inside one block on its rank's node is delivered in place: the block is pinned until the
// rank has released the batch. Any other batch is gathered into a slot of its own, piece by piece
// as its blocks become resident; the rank's reserve covers this slot. So a batch never needs two
// blocks at once, and a job never needs more than its reserve and one block in preparation.
#pragma once

#include <vector>

#include "core/engine/grants.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Assembly {
 public:
  Assembly(EngineState& state, Grants& grants)
      : s_(state), batches_(state.batches.writable_for(this)), grants_(grants) {}

  // Begins and continues the batches that the job's credits and blocks allow.
  void pump(Job& job);
  void transferred(const TransferDone& event);
  // A block is gone or will not come: pieces that were being copied from it start over.
  void lost_block(Handle block);
  // Delivers the whole batch, or delivers it again.
  void send_delivery(const Job& job, BatchIndex batch);

 private:
  bool begin(Job& job, Rank rank);
  bool cut(Job& job, EpochRun& run, Batch& batch);
  static void add_pieces(Sequence& sequence, Batch& batch, order::IndexRange indices, bool filler);
  void advance(Job& job, EpochRun& run, BatchIndex index, bool in_turn);
  Grant* grant_in_place(const Job& job, EpochRun& run, const Batch& batch);
  void deliver_in_place(Job& job, Grant& grant, BatchIndex index);
  void want_again(Job& job, Grant& grant);
  bool gather(Job& job, EpochRun& run, BatchIndex index);
  bool list_draws(const Job& job, Batch& batch);
  void serve(Job& job, Grant& grant, const Piece& piece);
  std::uint32_t repeats(const Job& job, const Batch& batch) const;
  ShareId batch_share(const Job& job, NodeId node) const;

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  Grants& grants_;
  std::vector<order::Draw> draws_;    // scratch
  std::vector<order::Slice> slices_;  // scratch
};

}  // namespace batchflow::engine
