// A node that may coordinate its cluster. It is the coordinator, or an agent of the coordinator:
// the folder that all candidates share says which (terms.h).
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
