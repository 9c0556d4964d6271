#include "runtime/service/cluster/peer_entrance.h"

#include <string_view>
#include <utility>

#include "runtime/service/cluster/joining_coordinator.h"
#include "runtime/service/cluster/node_connection.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {

namespace {

constexpr std::chrono::seconds kFeedAnswersWithin{15};
constexpr std::string_view kAgentEnds = "this agent ends";

}  // namespace

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
    if (!options.feeds) options.token_file.clear();
    listener_ = std::make_unique<remote::RemoteListener>(
        options, std::filesystem::path(),
        [this](TcpChannel& from, std::string_view as, const std::string&) {
          if (as == remote::kPeer) serve(from);
        },
        [this](const std::string& name) { return open_feed(name); }, say_refused_);
  }
  return node_address(config_.tcp, is_set ? config_.tcp.address : own, listener_->port());
}

void PeerEntrance::open(Backend& backend, Post post, std::string coordinator) {
  const std::lock_guard lock(mutex_);
  server_ = std::make_unique<PeerServer>(backend, std::move(post));
  coordinator_ = std::move(coordinator);
  changed_.notify_all();
}

void PeerEntrance::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (TcpChannel* const channel : opening_) channel->shut(kAgentEnds);
  changed_.notify_all();
}

bool PeerEntrance::wait_for_close(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [this] { return is_closed_; });
}

// Feeds have their logs at the coordinator. Its answer is not waited for when the agent is to end.
remote::OpenedFeed PeerEntrance::open_feed(const std::string& name) {
  remote::OpenedFeed opened;
  opened.why = kNotYet;
  std::string coordinator;
  {
    const std::lock_guard lock(mutex_);
    coordinator = coordinator_;
  }
  if (coordinator.empty()) {
    opened.problem = "this agent looks for its coordinator; ask again";
    return opened;
  }
  const NodeAccess access{config_.tcp.cluster_token_file, config_.cluster.authorities};
  auto channel = connect_to_node(coordinator, access, remote::kForwarded, opened.problem, name);
  if (!channel) return opened;
  {
    const std::lock_guard lock(mutex_);
    opening_.insert(channel.get());
    if (is_closed_) channel->shut(kAgentEnds);
  }
  const auto deadline = TcpChannel::Clock::now() + kFeedAnswersWithin;
  const bool is_open = remote::is_feed_open(*channel, deadline, opened.why, opened.problem);
  {
    const std::lock_guard lock(mutex_);
    opening_.erase(channel.get());
  }
  if (is_open) opened.end = remote::feed_end(std::move(channel));
  return opened;
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
