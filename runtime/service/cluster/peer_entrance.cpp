#include "runtime/service/cluster/peer_entrance.h"

#include <string_view>
#include <utility>

#include "runtime/service/cluster/joining_coordinator.h"
#include "runtime/service/cluster/node_messages.h"

namespace batchflow::service {

using remote::TcpChannel;

std::string PeerEntrance::listen(const TcpChannel& to_coordinator) {
  const std::string own = own_host(to_coordinator);
  const bool is_set = config_.tcp.port >= 0;
  if (!listener_) {
    remote::RemoteOptions options = config_.tcp;
    if (!is_set) {
      options.address = own;
      options.port = 0;
    }
    options.token_file.clear();
    listener_ = std::make_unique<remote::RemoteListener>(
        options, config_.socket, [this](TcpChannel& from, std::string_view as, const std::string&) {
          if (as == remote::kPeer) serve(from);
        });
  }
  return node_address(config_.tcp, is_set ? config_.tcp.address : own, listener_->port());
}

void PeerEntrance::open(Backend& backend, Post post) {
  const std::lock_guard lock(mutex_);
  server_ = std::make_unique<PeerServer>(backend, std::move(post));
  changed_.notify_all();
}

void PeerEntrance::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool PeerEntrance::wait_for_close(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [this] { return is_closed_; });
}

void PeerEntrance::serve(TcpChannel& channel) {
  PeerServer* server = nullptr;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return server_ || is_closed_; });
    if (is_closed_) return;
    server = server_.get();
  }
  server->serve(channel);
}

}  // namespace batchflow::service
