#include "runtime/client/feed_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "runtime/protocol/channel.h"
#include "runtime/protocol/feed_socket.h"
#ifdef BATCHFLOW_REMOTE
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <vector>

#include "runtime/remote/feed_relay.h"
#include "runtime/remote/proxy.h"
#include "runtime/remote/remote_options.h"
#endif

namespace batchflow::client {
namespace {

class LocalFeed final : public FeedConnection {
 public:
  explicit LocalFeed(protocol::Descriptor socket) : socket_(std::move(socket)) {}

  int socket() const override { return socket_.get(); }
  std::ptrdiff_t send(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return protocol::bytes_moved(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
  }
  std::ptrdiff_t receive(std::span<std::byte> bytes) override {
    return protocol::bytes_moved(::recv(socket_.get(), bytes.data(), bytes.size(), 0));
  }
  bool is_silent() override { return false; }  // the system says at once that it is gone

 private:
  const protocol::Descriptor socket_;
};

#ifdef BATCHFLOW_REMOTE
using remote::TcpChannel;
using namespace std::chrono_literals;

constexpr std::size_t kJoinedMost = std::size_t{256} << 10;
constexpr auto kAnswerWithin = 15s;  // a wrong token takes a second
constexpr std::uint32_t kSilentMs = 60'000;

class RemoteFeed final : public FeedConnection {
 public:
  explicit RemoteFeed(std::unique_ptr<TcpChannel> channel) : channel_(std::move(channel)) {}

  int socket() const override { return channel_->socket(); }
  // Small records go in one packet, and in one record of TLS.
  std::ptrdiff_t send(std::span<const iovec> parts) override {
    joined_.clear();
    for (const iovec& part : parts) {
      const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
      joined_.insert(joined_.end(), bytes,
                     bytes + std::min(part.iov_len, kJoinedMost - joined_.size()));
    }
    short wants = 0;
    return channel_->write_some(joined_, wants);
  }
  std::ptrdiff_t receive(std::span<std::byte> bytes) override {
    short wants = 0;
    return channel_->read_some(bytes, wants);
  }
  bool is_silent() override {
    const auto now = Clock::now();
    if (now - looked_at_ < 1s) return false;
    looked_at_ = now;
    tcp_info info{};
    socklen_t size = sizeof info;
    return getsockopt(channel_->socket(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > kSilentMs;
  }

 private:
  const std::unique_ptr<TcpChannel> channel_;
  std::vector<std::byte> joined_;  // scratch
  Clock::time_point looked_at_{};
};

std::unique_ptr<FeedConnection> open_remote(const std::string& feed,
                                            FeedConnection::Clock::time_point deadline,
                                            std::string& problem, std::string& refused) {
  const std::size_t slash = feed.find('/', std::string_view("tcp://").size());
  if (slash == std::string::npos || slash + 1 == feed.size()) {
    refused = fmt::format("'{}' names no feed; write tcp://HOST:PORT/NAME, or tls://", feed);
    return nullptr;
  }
  const auto access = remote::remote_access(feed.substr(0, slash), refused);
  if (!access) return nullptr;
  auto channel = remote::connect_with_token(*access, deadline, problem, remote::kProducer,
                                            feed.substr(slash + 1));
  const auto soon = std::min(deadline, FeedConnection::Clock::now() + kAnswerWithin);
  if (!channel) return nullptr;
  std::string why;
  if (remote::is_feed_open(*channel, soon, why, problem))
    return std::make_unique<RemoteFeed>(std::move(channel));
  if (why != "not_yet") refused = problem;
  return nullptr;
}
#else
std::unique_ptr<FeedConnection> open_remote(const std::string&, FeedConnection::Clock::time_point,
                                            std::string&, std::string& refused) {
  refused = "this client was built without OpenSSL (libssl-dev), and reaches no other machine";
  return nullptr;
}
#endif

}  // namespace

std::unique_ptr<FeedConnection> FeedConnection::open(const std::string& feed,
                                                     Clock::time_point deadline,
                                                     std::string& problem, std::string& refused) {
  if (protocol::is_remote(feed)) return open_remote(feed, deadline, problem, refused);
  protocol::Descriptor socket = protocol::connect_to_feed(feed, problem);
  if (!socket) return nullptr;
  return std::make_unique<LocalFeed>(std::move(socket));
}

}  // namespace batchflow::client
