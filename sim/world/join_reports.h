// What the engine hears of a simulated job that joins, or goes on: its request, its nodes, and the
// samples that it rehearses.
#pragma once

#include "sim/world/job.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class JoinReports {
 public:
  explicit JoinReports(const Parts& parts) : world_(parts) {}

  // `index` is the job's in the scenario. It joins at its checkpoint, if it has one.
  void joined(std::uint32_t index, const Job& job);
  // Its ranks have come back, on these nodes or on others.
  void resized(const Job& job);

 private:
  void exemplars(std::uint32_t index, const Job& job);
  order::Position newest_position(const engine::JobJoined& event) const;
  order::Position mixture_position(const Job& job, const engine::JobJoined& event) const;

  const Parts world_;
};

}  // namespace batchflow::world
