// The workers of each node: idle, busy, lost.
//
// A lost worker may still write to the slots that it was given. They stay taken until it is
// quiesced.
#pragma once

#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class Workers {
 public:
  explicit Workers(EngineState& state) : s_(state), workers_(state.workers.writable_for(this)) {}

  // The index of a worker that is not known to be quiet, or none.
  WorkerIndex find(WorkerId worker) const { return index_of_.find(worker); }
  // Answers the node on which the worker is idle now; none: the event cannot be right.
  NodeIndex joined(const WorkerJoined& event);
  // Answers the making that the worker had, if any. REQUIRES: it is not lost yet
  MakingIndex lost(WorkerIndex worker);
  // The lost worker writes no more: the slots that it might have written are free.
  void quiesced(WorkerIndex worker);
  // No worker of the node writes any more, and none is given work.
  void stop(NodeIndex node);
  // Forgets the workers of the node, after their makings have ended.
  void forget_all(NodeIndex node);

  // Gives the making the worker of its node that was used last. REQUIRES: one is idle
  WorkerIndex take(NodeIndex node, MakingIndex making);
  // From now on the busy worker counts as that of another making. A lost one has none.
  void reassign(WorkerIndex worker, MakingIndex making);
  // A making that waits while it holds a worker of the node; none: there is none.
  MakingIndex holder_that_waits(NodeIndex node) const;
  void release(WorkerIndex worker);
  // A slot that the lost worker may still write to.
  void quarantine(WorkerIndex worker, const Resident& slot);

 private:
  void forget(WorkerIndex worker);

  EngineState& s_;
  IndexedVector<Worker, WorkerIndex>& workers_;
  std::vector<WorkerIndex> quiet_;  // slots of workers that are quiet
  IndexMap<WorkerId, WorkerIndex> index_of_;
};

}  // namespace batchflow::engine
