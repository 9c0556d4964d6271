// An agent: the service of a node, with its engine elsewhere. It reads, prepares, keeps and hands
// over what its coordinator's engine orders for its node. Jobs join it as they join any service,
// and map its memory; their messages and records go on to the coordinator.
//
// When it loses its coordinator it lets its jobs go, forgets all it keeps, and looks for the
// coordinator, or the next one at that address, again.
#pragma once

#include <functional>
#include <string>

#include "runtime/service/control/node_config.h"

namespace batchflow::service {

// Serves until a signal ends it, which is answered. Throws ConfigError, also for what its
// coordinator refuses.
int run_agent(NodeConfig config, const std::function<void(const std::string& line)>& write);

}  // namespace batchflow::service
