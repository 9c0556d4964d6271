// Where the engine's commands are carried out: the node of each request and of each worker.
// The coordinator's node is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "core/engine/event.h"

namespace batchflow::service {

class CommandRoutes {
 public:
  // No request is under way on another node.
  bool empty() const { return routes_.empty(); }
  NodeId node_of(const engine::Command& command) const;
  // The command as the agent of `node` gets it, with the agent's own ids of workers. What it
  // reports of the request counts from now on.
  engine::Command hand_over(NodeId node, const engine::Command& command);

  // The node reports this. False: it was not asked for it, or it has ended.
  bool done(NodeId node, const engine::ReadDone& done);
  bool done(NodeId node, const engine::PreparationDone& done);
  bool done(NodeId node, const engine::TransferDone& done);
  // Answer the engine's id of the worker, which the agent calls `theirs`; none: it is not known.
  WorkerId joined(NodeId node, WorkerId theirs);
  WorkerId quiesced(NodeId node, WorkerId theirs);
  void lost(NodeId node);

 private:
  struct Route {
    NodeId node;
    bool ends_when_done = true;       // nothing is staged that would be released
    bool ends_when_cancelled = true;  // nothing is reported after that
  };
  using Routes = std::unordered_map<std::uint64_t, Route>;  // by request id

  void note(NodeId node, const engine::Command& command);
  Routes::iterator find(NodeId node, const engine::Request& request);
  WorkerId theirs(WorkerId worker) const;

  Routes routes_;
  std::uint32_t next_worker_ = 1u << 20;  // far from those of this node, which count from 0
  std::map<std::uint32_t, std::map<std::uint32_t, WorkerId>> workers_;  // by node, by their ids
  std::unordered_map<std::uint32_t, std::uint32_t> theirs_;             // by the engine's ids
};

}  // namespace batchflow::service
