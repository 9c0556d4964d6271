// Takes a changed configuration while the service runs: as a whole, or not at all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/service/control/reload.h"
#include "runtime/service/datasets/dataset_openings.h"
#include "runtime/service/service.h"

namespace batchflow::service {

class ServiceReload {
 public:
  explicit ServiceReload(Service::Parts& parts) : parts_(parts) {}

  // Reads the configuration anew, opens what it adds, and only then changes to it. `done` is called
  // with what has changed, or with why nothing has. A call while this goes on gets the result of
  // the next reading.
  using Done = std::function<void(std::string changed, std::string problem)>;
  void reload(Done done);

 private:
  void begin();
  void end(const std::string& changed, const std::string& problem);
  // What `wanted` changes, checked. Throws ConfigError.
  ReloadPlan planned(NodeConfig& next) const;
  std::string apply(const NodeConfig& wanted, const std::vector<DatasetOpenings::Opened>& opened);

  Service::Parts& parts_;
  bool reloading_ = false;  // the configuration was read, and is not in force yet
  std::vector<Done> asked_, asked_next_;
};

}  // namespace batchflow::service
