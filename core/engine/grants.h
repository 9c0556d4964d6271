// A job's sequence: which blocks it has taken, in which order, and in which epoch it is.
//
// The order (core/order/lanes.h) says which blocks a job may take, and BlockSelection which of them
// it takes. This part takes it, and cuts epochs into steps. For drawn orders, DrawnEpochs says
// which samples an epoch has.
#pragma once

#include "core/engine/block_selection.h"
#include "core/engine/drawn_epochs.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Grants {
 public:
  Grants(EngineState& state, BlockSelection& selection, DrawnEpochs& drawn_epochs)
      : s_(state), selection_(selection), drawn_epochs_(drawn_epochs) {}

  // Starts the job's sequence at its committed position.
  void begin(Job& job);
  // Gives up everything that is not committed.
  void withdraw(Job& job);

  // A job that joins now has its samples chosen by the policy, if its order is relaxed.
  bool chooses_samples() const { return selection_.chooses_samples(); }
  // The job has begun after the last of its epochs, or has yet to begin: it gets nothing.
  bool gets_nothing(const Job& job) const;
  // Whether the job has a step of that number. False after its last epoch. False, too, before all
  // blocks of the previous epoch are taken; then the job waits.
  bool has_step(Job& job, std::uint64_t step);
  // Takes blocks until all plain indices of the step's run below `to` are granted. False: not all
  // of them are ready. REQUIRES: has_step(job, step)
  bool cover(Job& job, EpochRun& run, std::uint64_t to);
  // The same for what is rehearsed. Its blocks need not be there to be granted.
  void rehearse(const Job& job, EpochRun& run, std::uint64_t to);
  // A block that will be rehearsed soon and was not made yet, or null.
  Grant* rehearsal_ahead(Job& job);
  static EpochRun& run_of(Job& job, std::uint64_t step);
  // The end of the indices that must be granted before the batch is whole.
  static std::uint64_t batch_end(const EpochRun& run, std::uint64_t step,
                                 const order::RankBatch& batch);

  // The grant that a piece of a batch lies in. REQUIRES: the batch is not yet committed.
  static Grant& grant_of(EpochRun& run, const Piece& piece) {
    return run.sequence_of(piece.slice).grant_at(piece.index);
  }
  // `samples` of the grant have been delivered or copied.
  void served(Job& job, Grant& grant, std::uint32_t samples);
  // All steps below job.committed_step are committed: forgets what only they needed.
  void forget_committed(Job& job);

  // How many blocks the job still has to take to serve the batches that wait.
  std::uint32_t missing_blocks(Job& job);

 private:
  void open_run(Job& job, std::uint32_t epoch, std::uint64_t consumed);
  bool open_next_run(Job& job);
  bool open_next_live_run(Job& job);
  // All steps of the epochs that it has begun.
  static bool has_committed_all(const Job& job);
  bool may_open_next(const Job& job) const;
  void begin_live(Job& job);
  // For the next index that is not granted: the node that it belongs to (none, if all nodes have
  // one sequence), and where that node's indices end.
  struct Turn {
    NodeId node;
    std::uint64_t most = UINT64_MAX;
  };
  static Turn turn(const Job& job, const EpochRun& run);
  bool take_next(Job& job, EpochRun& run);
  std::optional<std::uint64_t> open_block(Job& job, EpochRun& run, NodeId node);
  static std::optional<std::uint64_t> largest_rest(EpochRun& run);
  std::optional<Grant> take_block(Job& job, EpochRun& run, NodeId node);
  void begin_rehearsal(Job& job, EpochRun& run, order::KeyRoot root);
  static void choose_numbers(const Job& job, Stream& stream);
  void begin_in_sequence(Job& job);
  void resume(Job& job, const order::Position::PartBlock& part, order::LanePosition& lanes);
  static std::uint32_t fillers_in(const EpochRun& run, const Cut& cut);
  void uncharge_unneeded(const Job& job);
  std::uint64_t add(Sequence& sequence, Grant&& grant);
  void drop_grant(Job& job, Grant& grant);

  EngineState& s_;
  BlockSelection& selection_;
  DrawnEpochs& drawn_epochs_;
};

}  // namespace batchflow::engine
