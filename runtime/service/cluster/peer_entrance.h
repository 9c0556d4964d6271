// Where the backends of other nodes reach an agent's backend, and where producers reach the feeds
// of its coordinator. Peers that come before the agent has joined wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "runtime/remote/listener.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/cluster/peer_links.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

class PeerEntrance {
 public:
  // Any thread may call `say_refused`.
  PeerEntrance(const NodeConfig& config, remote::RemoteListener::SayRefused say_refused)
      : config_(config), say_refused_(std::move(say_refused)) {}

  // Listens, and answers at which address: unless another is set, the one by which this node
  // reaches its coordinator. Any thread may call it. Throws ConfigError.
  std::string listen(const remote::TcpChannel& to_coordinator);
  // From now on peers get what the backend has, and producers reach the coordinator.
  void open(Backend& backend, Post post, std::string coordinator);
  // Lets peers that wait go, and serves none that comes from now on.
  void close();
  // Waits so long, or until it is closed. Answers whether it is.
  bool wait_for_close(std::chrono::milliseconds most);

 private:
  void serve(remote::TcpChannel& channel);
  remote::OpenedFeed open_feed(const std::string& name);

  const NodeConfig& config_;
  const remote::RemoteListener::SayRefused say_refused_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<PeerServer> server_;     // by mutex_
  std::string coordinator_;                // by mutex_: its address, once the agent has joined
  std::set<remote::TcpChannel*> opening_;  // by mutex_: to the coordinator, which has not answered
  bool is_closed_ = false;                 // by mutex_
  std::unique_ptr<remote::RemoteListener> listener_;
};

}  // namespace batchflow::service
