// An agent: the service of a node, with its engine elsewhere. It reads, prepares, keeps and hands
// over what the coordinator's engine commands for its node. Jobs join it as they join any service,
// and map its memory; their messages and records go on to the coordinator.
//
// When it loses its coordinator it lets its jobs go, and looks for the coordinator, or the next
// one, again. The samples that it keeps in memory and on its drive stay, and it tells the
// coordinator that it finds; all else it forgets.
#pragma once

#include <signal.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "runtime/service/control/node_config.h"
#include "runtime/service/node_sockets.h"

namespace batchflow::service {

struct CacheMemory;

// The signals that end a node.
sigset_t ending_signals();

// Where an agent looks next for its coordinator.
struct FoundCoordinator {
  std::string address;   // empty: it is not known now
  std::string problem;   // why
  bool is_here = false;  // this node is to coordinate itself
};
using FindCoordinator = std::function<FoundCoordinator()>;  // called on any thread

struct AgentOutcome {
  int signal = 0;          // that ended it
  bool is_here = false;    // as FoundCoordinator says
  std::size_t others = 0;  // agents beside this one, of the last coordinator
};

// `memory` is what this process keeps; null: it begins. Serves the jobs that come at `listening`
// until a signal ends it, or it is to coordinate. Throws ConfigError, also for what its coordinator
// refuses.
AgentOutcome run_agent(NodeConfig config, const FindCoordinator& find,
                       const ListeningSocket& listening,
                       const std::function<void(const std::string& line)>& write,
                       std::shared_ptr<CacheMemory>& memory);
// The same, with a coordinator at one of the addresses of `join`. Answers the signal.
int run_agent(const NodeConfig& config, const std::function<void(const std::string& line)>& write);

}  // namespace batchflow::service
