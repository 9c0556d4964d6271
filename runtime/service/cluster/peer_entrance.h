// Where the backends of other nodes reach an agent's backend. Peers that come before the agent has
// joined wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/remote/listener.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/cluster/peer_links.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

class PeerEntrance {
 public:
  explicit PeerEntrance(const NodeConfig& config) : config_(config) {}

  // Listens, and answers at which address: unless another is set, the one by which this node
  // reaches its coordinator. Any thread may call it. Throws ConfigError.
  std::string listen(const remote::TcpChannel& to_coordinator);
  // From now on peers get what the backend has.
  void open(Backend& backend, Post post);
  // Lets those go that wait. No peer is served any more that comes from now on.
  void close();
  // Waits so long, or until it is closed. Answers whether it is.
  bool wait_for_close(std::chrono::milliseconds most);

 private:
  void serve(remote::TcpChannel& channel);

  const NodeConfig& config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<PeerServer> server_;  // by mutex_
  bool is_closed_ = false;              // by mutex_
  std::unique_ptr<remote::RemoteListener> listener_;
};

}  // namespace batchflow::service
