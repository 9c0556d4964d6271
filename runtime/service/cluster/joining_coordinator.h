// An agent's first words with its coordinator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/types.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

struct Joined {
  std::unique_ptr<remote::TcpChannel> channel;
  NodeId node = NodeId::none();  // none: `problem` says why
  std::string problem;
  bool is_refused = false;  // another attempt would be, too
};

// One attempt. `state` names this agent's state folder. `listen` answers at which address peers
// reach this node, which reaches its coordinator by the channel; it may throw ConfigError.
Joined join_coordinator(const NodeConfig& config, const std::string& state,
                        const std::function<std::string(const remote::TcpChannel&)>& listen);

// The address of this machine by which the channel reaches the other side.
std::string own_host(const remote::TcpChannel& channel);

}  // namespace batchflow::service
