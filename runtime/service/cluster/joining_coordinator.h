// How an agent joins its coordinator: it connects, shows its token, and is let in or refused.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/types.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/cluster/terms.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

struct Joined {
  std::unique_ptr<remote::TcpChannel> channel;
  NodeId node = NodeId::none();  // none: `problem` says why
  std::string address;           // of the coordinator
  TermName term;                 // that it serves
  std::string version;           // of its program
  std::string page;              // that people see; empty: none
  std::string problem;
  bool is_refused = false;  // another attempt would be, too
};

// The node that wants to join.
struct Joiner {
  const NodeConfig& config;
  std::string state;  // the name of its state folder
  TermName term;      // the newest that it knows
};
// One attempt. `listen` answers at which address peers reach this node, which reaches its
// coordinator by the channel; it may throw ConfigError. From then on, shutting the channel ends the
// attempt.
Joined join_coordinator(const std::string& address, const Joiner& joiner,
                        const std::function<std::string(remote::TcpChannel&)>& listen);

// The address of this machine by which the channel reaches the other side.
std::string own_host(const remote::TcpChannel& channel);

}  // namespace batchflow::service
