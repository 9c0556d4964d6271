#include "runtime/remote/accepting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/protocol/secret.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::remote {
namespace {

using namespace std::chrono_literals;

constexpr auto kLastTime = 1s;
constexpr std::chrono::milliseconds kAfterWrongToken = 1s;

// When a connection is closed with unread bytes, TCP may drop what was sent last. So what the peer
// still sends is read and dropped, until it has closed the connection, or for a moment.
void discard_input(const TcpChannel& channel) {
  const auto until = TcpChannel::Clock::now() + kLastTime;
  std::array<char, 4096> dropped;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - TcpChannel::Clock::now());
    pollfd wanted{channel.socket(), POLLIN, 0};
    if (left.count() <= 0 || poll(&wanted, 1, static_cast<int>(left.count())) <= 0 ||
        recv(channel.socket(), dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0)
      return;
  }
}

}  // namespace

protocol::Descriptor listen_at(const std::string& address, int port, std::uint16_t& bound) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const auto refuse = [&](const char* why) {
    return ConfigError(fmt::format(
        "tcp: {}:{}: {}; name an address of this machine and a free port", address, port, why));
  };
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw refuse(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  protocol::Descriptor socket(
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket || bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0)
    throw refuse(std::strerror(errno));
  sockaddr_storage is{};
  socklen_t size = sizeof is;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&is), &size);
  bound = ntohs(is.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(is).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(is).sin_port);
  return socket;
}

// The address of the other side, without its port.
std::string address_of_peer(int socket) {
  sockaddr_storage is{};
  socklen_t size = sizeof is;
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&is), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&is), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "elsewhere";
  return host.data();
}

bool knows_token(const TcpChannel& channel, const std::string& file, const std::string& shown,
                 std::string& problem) {
  std::vector<std::string> tokens;
  if (problem = read_tokens(file, tokens); !problem.empty()) return false;
  bool known = false;
  for (const std::string& token : tokens) known = protocol::same_secret(token, shown) || known;
  if (known) return true;
  pollfd ends{channel.socket(), 0, 0};
  poll(&ends, 1, static_cast<int>(kAfterWrongToken.count()));
  return false;
}

void close_after_last(TcpChannel& channel) {
  ::shutdown(channel.socket(), SHUT_WR);
  discard_input(channel);
}

void write_last(TcpChannel& channel, std::string_view text) {
  channel.end_at(TcpChannel::Clock::now() + kLastTime);
  if (channel.write_text(text)) discard_input(channel);
}

}  // namespace batchflow::remote
