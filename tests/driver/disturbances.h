// What happened to the jobs of a run while they trained, by kind.
#pragma once

#include <cstdint>

namespace batchflow::test {

struct Disturbances {
  std::uint64_t services_killed = 0;
  std::uint64_t ranks_killed = 0;  // also with their nodes
  std::uint64_t workers_killed = 0;
  std::uint64_t resizes = 0;  // to another number of ranks, or to other batches
  std::uint64_t weight_changes = 0;

  std::uint64_t all() const {
    return services_killed + ranks_killed + workers_killed + resizes + weight_changes;
  }
  void add(const Disturbances& other) {
    services_killed += other.services_killed;
    ranks_killed += other.ranks_killed;
    workers_killed += other.workers_killed;
    resizes += other.resizes;
    weight_changes += other.weight_changes;
  }
};

}  // namespace batchflow::test
