#include "sim/world/gpu_queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace batchflow::world {

GpuQueue::GpuQueue(const input::ClusterModel& cluster) {
  for (const input::NodeModel& node : cluster.nodes) {
    free_.push_back(node.gpus);
    in_use_.emplace_back(node.gpus, false);
    all_free_ += node.gpus;
  }
}

std::optional<std::vector<NodeId>> GpuQueue::take(const input::JobModel& job) {
  std::optional<std::vector<NodeId>> ranks;
  if (!job.nodes.empty()) {
    ranks = take_in_turn(job);
  } else if (job.ranks <= all_free_) {
    ranks = take_first(job.ranks);
  }
  if (!ranks) return std::nullopt;
  for (const NodeId node : *ranks) --free_[node.value];
  all_free_ -= ranks->size();
  return ranks;
}

std::optional<std::vector<NodeId>> GpuQueue::take_in_turn(const input::JobModel& job) {
  std::vector<std::uint32_t> left = free_;
  std::vector<NodeId> ranks;
  std::size_t full = 0;  // nodes in a row without a free GPU
  for (std::size_t at = 0; ranks.size() < job.ranks; at = (at + 1) % job.nodes.size()) {
    const auto node = static_cast<std::size_t>(job.nodes[at]);
    if (left[node] == 0) {
      if (++full == job.nodes.size()) return std::nullopt;
      continue;
    }
    full = 0;
    --left[node];
    ranks.push_back(node_id(node));
  }
  return ranks;
}

std::vector<NodeId> GpuQueue::take_first(std::uint32_t wanted) {
  const auto fits =
      std::find_if(free_.begin(), free_.end(), [&](std::uint32_t free) { return free >= wanted; });
  if (fits != free_.end()) {
    return std::vector<NodeId>(wanted, node_id(static_cast<std::size_t>(fits - free_.begin())));
  }
  // On as few nodes as possible, in the order of the nodes.
  std::vector<std::size_t> nodes(free_.size());
  std::iota(nodes.begin(), nodes.end(), std::size_t{0});
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](std::size_t a, std::size_t b) { return free_[a] > free_[b]; });
  std::vector<NodeId> ranks;
  for (std::size_t i = 0; ranks.size() < wanted; ++i) {
    const std::size_t here = std::min<std::size_t>(free_[nodes[i]], wanted - ranks.size());
    ranks.insert(ranks.end(), here, node_id(nodes[i]));
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<std::uint32_t> GpuQueue::number(const std::vector<NodeId>& ranks) {
  std::vector<std::uint32_t> numbers;
  for (const NodeId node : ranks) {
    std::vector<bool>& in_use = in_use_[node.value];
    const auto first = std::find(in_use.begin(), in_use.end(), false);
    *first = true;
    numbers.push_back(static_cast<std::uint32_t>(first - in_use.begin()));
  }
  return numbers;
}

void GpuQueue::give_back(const std::vector<NodeId>& ranks,
                         const std::vector<std::uint32_t>& numbers) {
  for (std::size_t i = 0; i < ranks.size(); ++i) in_use_[ranks[i].value][numbers[i]] = false;
  for (const NodeId node : ranks) {
    if (const auto away = free_then_.find(node); away != free_then_.end()) {
      ++away->second;
      continue;
    }
    ++free_[node.value];
    ++all_free_;
  }
}

void GpuQueue::node_down(NodeId node) {
  free_then_[node] = std::exchange(free_[node.value], 0);
  all_free_ -= free_then_[node];
}

void GpuQueue::node_up(NodeId node) {
  free_[node.value] = free_then_.at(node);
  all_free_ += free_[node.value];
  free_then_.erase(node);
}

}  // namespace batchflow::world
