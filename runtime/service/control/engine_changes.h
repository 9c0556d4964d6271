// What the engine is told, so that one configuration turns into another while it runs.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine_config.h"
#include "runtime/service/inbox.h"

namespace batchflow::service {

struct EngineChanges {
  std::vector<std::string> policies;  // kind=name
  std::vector<std::string> settings;  // key=value
  bool takes_restart = false;         // for a setting that cannot change while the engine runs

  void tell(Inbox& inbox) const;
};
EngineChanges engine_changes(const engine::EngineConfig& running,
                             const engine::EngineConfig& wanted);

// `running` with every setting of `wanted` that can change while the engine runs.
engine::EngineConfig reachable(const engine::EngineConfig& running,
                               const engine::EngineConfig& wanted);

}  // namespace batchflow::service
