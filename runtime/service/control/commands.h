// The commands of batchflowctl that a service answers, by name.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "core/engine/engine.h"
#include "core/engine/engine_config.h"
#include "runtime/service/backend/warming.h"
#include "runtime/service/datasets/joining.h"
#include "runtime/service/http/snapshot.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/log/decision_log.h"
#include "runtime/service/log/recorder.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/plugins/plugins.h"

namespace batchflow::service {

class Commands {
 public:
  // What commands look at and change.
  struct Service {
    const engine::Engine& engine;
    engine::EngineConfig& config;  // what the service says that runs
    const DecisionLog& decisions;
    bool decisions_are_kept;  // `explain` of the node file
    Recorder& recorder;
    Inbox& inbox;
    Jobs& jobs;
    Users& users;
    Datasets& datasets;
    Joining& joining;
    Warming& warming;
    Plugins& plugins;
    std::function<Snapshot()> snapshot;
    std::function<void()> drain;
    // Reports, perhaps later, what has changed, or why nothing has.
    std::function<void(std::function<void(std::string changed, std::string problem)>)> reload;
    Say say;
  };
  explicit Commands(Service service) : service_(std::move(service)) {}

  // Gives `reply` the frame that answers `frame`, now or later. Only the service's own user and
  // root may change anything.
  using Reply = std::function<void(std::string frame)>;
  void answer(uid_t user, std::string_view frame, const Reply& reply);

 private:
  // Answers an empty text when the frame is answered later.
  std::string carry_out(uid_t user, std::string_view frame, const Reply& reply);

  Service service_;
};

}  // namespace batchflow::service
