// How many workers there are, how many are busy, and for how long all of a group were: the workers
// of a node, or of one stream where each rank has workers of its own. Known from events and
// commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/base/types.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

class BusyWorkers {
 public:
  // `workers_per_rank` is 0 where all jobs of a node share its workers.
  BusyWorkers(std::size_t nodes, std::uint32_t workers_per_rank)
      : workers_per_rank_(workers_per_rank), node_groups_(nodes) {}

  bool are_shared() const { return workers_per_rank_ == 0; }

  void joined(WorkerId worker, NodeId node, Instant now);
  void gone(WorkerId worker, Instant now);
  void node_lost(NodeId node, Instant now);
  // The worker prepares for this stream, or a read for it holds the worker.
  void hold(WorkerId worker, std::uint64_t stream, Instant now);
  void release(WorkerId worker, Instant now);
  // How many ranks have this stream; of no effect where workers are shared.
  void set_ranks(std::uint64_t stream, std::size_t ranks);

  std::uint64_t count() const { return all_nodes_.limit; }
  // Of all workers together, until now.
  TotalTime busy(Instant now) const;
  // For how long, until now, all workers that could have helped the stream on the node were busy.
  Duration full_until(NodeId node, std::uint64_t stream, Instant now);

 private:
  struct Group {
    std::uint32_t limit = 0;
    std::uint32_t busy = 0;
    Instant since{};
    Duration full{0};
    TotalTime used{0};  // busy x time
    bool is_full() const { return limit > 0 && busy >= limit; }
    Duration full_until(Instant now) const { return is_full() ? full + (now - since) : full; }
    void change(int busy_more, int limit_more, Instant now);
  };
  struct Worker {
    NodeId node;
    std::uint32_t uses = 0;
    std::uint64_t stream = 0;
    bool there = true;  // its node is up
  };

  void change_node(NodeId node, int busy, int limit, Instant now);
  Group& group(NodeId node, std::uint64_t stream);

  const std::uint32_t workers_per_rank_;
  std::vector<Group> node_groups_;
  Group all_nodes_;  // their sum
  std::vector<Worker> workers_;
  std::unordered_map<std::uint64_t, Group> stream_groups_;  // looked up, never walked
};

}  // namespace batchflow::world
