// Assigns GPUs to jobs: jobs get theirs in the order in which they arrive, and keep them until they
// end.
//
// This is the cluster's scheduler, as simple as one can be; no policy of the data service sees it.
// A job that names its nodes gets its GPUs on them, in turn. Another job gets them on the first
// node where all its ranks fit, or spread over the first nodes with free GPUs.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "programs/input/scenario.h"

namespace batchflow::world {

// Of the node with this index in the scenario.
inline NodeId node_id(std::size_t index) {
  return NodeId(static_cast<std::uint32_t>(index));
}

class GpuQueue {
 public:
  explicit GpuQueue(const input::ClusterModel& cluster);

  // The node of each rank; empty when there are not enough free GPUs now.
  std::optional<std::vector<NodeId>> take(const input::JobModel& job);
  bool all_taken() const { return all_free_ == 0; }
  std::uint64_t free() const { return all_free_; }
  // Which GPUs of these nodes they are: the first that no other job has.
  std::vector<std::uint32_t> number(const std::vector<NodeId>& ranks);
  void give_back(const std::vector<NodeId>& ranks, const std::vector<std::uint32_t>& numbers);
  // The GPUs of a node that is down belong to no job, until the node is up again.
  void node_down(NodeId node);
  void node_up(NodeId node);

 private:
  std::optional<std::vector<NodeId>> take_in_turn(const input::JobModel& job);
  std::vector<NodeId> take_first(std::uint32_t ranks);

  std::vector<std::uint32_t> free_;        // by node
  std::vector<std::vector<bool>> in_use_;  // by node and GPU
  std::map<NodeId, std::uint32_t>
      free_then_;  // of nodes that are down: how many will be free when they are up
  std::uint64_t all_free_ = 0;
};

}  // namespace batchflow::world
