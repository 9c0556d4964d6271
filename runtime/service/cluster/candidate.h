// A node that may coordinate its cluster: it does, or it is an agent of the node that does. Which
// it is, the folder says that all candidates share (terms.h).
#pragma once

#include <functional>
#include <string>

#include "runtime/service/control/node_config.h"
#include "runtime/service/service.h"

namespace batchflow::service {

// Serves until a signal ends it, or a drain. Answers the signal that ended it at once, or 0. Throws
// ConfigError.
int run_candidate(const NodeConfig& config, const Service::Reread& reread,
                  const std::function<void(const std::string& line)>& write);

}  // namespace batchflow::service
