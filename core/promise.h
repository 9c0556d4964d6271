// What the engine has promised and must know after a crash: joins, sizes, commits, ends. Nothing
// else.
//
// Each step leaves its promises; a backend writes them to the promise log before it carries out the
// commands of that step. Caches and policies are not in it: they start empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/event.h"
#include "core/position.h"
#include "core/types.h"

namespace batchflow {

// A join as it was accepted, with everything it refers to.
struct PromisedJoin {
  JobJoined join;  // its lists and position point into this struct
  std::vector<NodeId> ranks;
  Position position;
};

struct Promise {
  enum class Kind : std::uint8_t { joined, committed, epoch_finished, left, resized };
  Kind kind = Kind::joined;
  JobId job;
  std::uint64_t step = 0;           // committed
  std::uint32_t epoch = 0;          // committed, epoch_finished
  std::vector<Slice> slices;        // committed: the step's samples, fillers left out
  LaneSizes sizes;                  // committed, relaxed: of the slices' generation
  Digest weights = 0;               // committed, weighted: those the epoch is drawn from
  std::uint64_t draws = 0;          // committed, weighted: of the epoch
  Digest buffer = 0;                // committed: what is rehearsed in the epoch; 0: nothing
  PromisedJoin join;                // joined
  std::uint32_t batch_samples = 0;  // resized: of one rank
  std::vector<NodeId> ranks;        // resized
};

}  // namespace batchflow
