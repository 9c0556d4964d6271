#include "sim/world/busy_workers.h"

#include <algorithm>

namespace batchflow::world {

void BusyWorkers::Group::change(int busy_more, int limit_more, Instant now) {
  full = full_until(now);
  used += TotalTime(now - since) * busy;
  busy += static_cast<std::uint32_t>(busy_more);
  limit += static_cast<std::uint32_t>(limit_more);
  since = now;
}

void BusyWorkers::change_node(NodeId node, int busy, int limit, Instant now) {
  node_groups_[node.value].change(busy, limit, now);
  all_nodes_.change(busy, limit, now);
}

// Where each job has workers of its own, workers of other jobs do not help it.
BusyWorkers::Group& BusyWorkers::group(NodeId node, std::uint64_t stream) {
  if (are_shared()) return node_groups_[node.value];
  Group& group = stream_groups_[stream];
  // The workers of one rank, until it is known which job has the stream.
  if (group.limit == 0) group.limit = workers_per_rank_;
  return group;
}

void BusyWorkers::joined(WorkerId id, NodeId node, Instant now) {
  workers_.resize(std::max<std::size_t>(workers_.size(), id.value + 1));
  workers_[id.value] = {node};
  change_node(node, 0, 1, now);
}

void BusyWorkers::gone(WorkerId id, Instant now) {
  Worker& worker = workers_[id.value];
  if (!worker.there) return;  // lost before it was quiet
  worker.there = false;
  change_node(worker.node, 0, -1, now);
}

void BusyWorkers::node_lost(NodeId node, Instant now) {
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].node == node) gone(WorkerId(i), now);
  }
}

void BusyWorkers::hold(WorkerId id, std::uint64_t stream, Instant now) {
  Worker& worker = workers_[id.value];
  if (worker.uses++ > 0) return;
  worker.stream = stream;
  change_node(worker.node, 1, 0, now);
  if (!are_shared()) group(worker.node, stream).change(1, 0, now);
}

void BusyWorkers::release(WorkerId id, Instant now) {
  Worker& worker = workers_[id.value];
  if (--worker.uses > 0) return;
  change_node(worker.node, -1, 0, now);
  if (!are_shared()) group(worker.node, worker.stream).change(-1, 0, now);
}

void BusyWorkers::set_ranks(std::uint64_t stream, std::size_t ranks) {
  stream_groups_[stream].limit = workers_per_rank_ * static_cast<std::uint32_t>(ranks);
}

TotalTime BusyWorkers::busy(Instant now) const {
  return all_nodes_.used + TotalTime(now - all_nodes_.since) * all_nodes_.busy;
}

Duration BusyWorkers::full_until(NodeId node, std::uint64_t stream, Instant now) {
  return group(node, stream).full_until(now);
}

}  // namespace batchflow::world
