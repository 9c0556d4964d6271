// What a node file changes in a running service when it is read again. This only compares, and
// names what cannot be changed.
#pragma once

#include <string>
#include <vector>

#include "runtime/service/control/engine_changes.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

struct ReloadPlan {
  std::vector<NodeDataset> removed;
  std::vector<NodeDataset> added;
  std::vector<NodeDataset> pipelines;  // of datasets that are served already
  std::vector<NodeDataset> pins;       // likewise
  EngineChanges engine;
  bool memory = false;                     // it changes
  bool workers = false;                    // their number changes
  std::vector<std::string> looked_up;      // sections of what is looked up when it is needed
  std::vector<std::string> takes_restart;  // sentences

  bool changes_nothing() const;
  std::string summary() const;  // of what changes
};

// Both as they were written, before settle(). A dataset with another path or format is removed and
// added.
ReloadPlan plan_reload(const NodeConfig& running, const NodeConfig& wanted);

// The configuration after the reload: `wanted`, but for what takes a restart.
NodeConfig after_reload(const NodeConfig& running, const NodeConfig& wanted);

}  // namespace batchflow::service
