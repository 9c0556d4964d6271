// What jobs with a listed order ask for, and what the engine does not know of their batches.
//
// In each epoch a job asks for all items of its dataset, in an order of that epoch. They are dealt
// out to its ranks batch by batch, as PyTorch's DistributedSampler does. The last step of an epoch
// is filled with items of the epoch's beginning, or left out (drop_last).
#pragma once

#include <cstdint>

#include "sim/world/backend.h"
#include "sim/world/job.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class ListedBatches {
 public:
  explicit ListedBatches(const Parts& parts) : world_(parts) {}

  // Steps of all epochs of the job.
  std::uint64_t steps_of(const Job& job) const;
  // The rank asks for its batch of a step, counted from the job's beginning. After the last one it
  // asks for nothing.
  void ask(const Job& job, Rank rank, std::uint64_t step) const;
  // Whether the batch, of the job's present step or a later one, is an epoch's last, and what of it
  // are fillers.
  void complete(const Job& job, Delivered& batch) const;

 private:
  struct Range {  // of an epoch's order; beyond its end, it begins anew
    std::uint64_t from, to;
  };

  std::uint64_t items_of(const Job& job) const;
  std::uint64_t steps_of_epoch(const Job& job) const;
  Range range_of(const Job& job, Rank rank, std::uint64_t step) const;

  const Parts world_;
};

}  // namespace batchflow::world
