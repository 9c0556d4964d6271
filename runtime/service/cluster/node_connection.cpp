#include "runtime/service/cluster/node_connection.h"

#include <span>
#include <vector>

#include "fmt/format.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::service {
namespace {

using remote::TcpChannel;

constexpr std::chrono::seconds kConnectWithin{3};
constexpr std::size_t kMessageMost = 65536;

}  // namespace

std::unique_ptr<TcpChannel> connect_to_node(const std::string& address, const NodeAccess& access,
                                            std::string_view as, std::string& problem,
                                            std::string_view feed) {
  std::vector<std::string> tokens;
  if (problem = remote::read_tokens(access.token_file, tokens); !problem.empty()) return nullptr;
  remote::RemoteAddress to;
  if (!remote::parse_remote(address, to, problem)) return nullptr;
  remote::TlsContext tls;
  if (to.tls)
    tls = remote::TlsContext::of_client(access.authorities, problem, "--cluster-authorities");
  if (to.tls && !tls) return nullptr;
  const std::string_view what_to_do =
      as == remote::kAgent ? "start the coordinator there, or name another (--join)"
                           : "let this machine reach its port, which --tcp sets there";
  auto channel = TcpChannel::connect(
      to, to.tls ? &tls : nullptr, TcpChannel::Clock::now() + kConnectWithin, problem, what_to_do);
  if (channel && !channel->write_text(remote::token_message(tokens.front(), as, feed))) {
    problem = channel->problem();
    channel = nullptr;
  }
  return channel;
}

std::optional<std::string> read_node_message(TcpChannel& channel, std::chrono::seconds within,
                                             std::string& problem) {
  const auto deadline = TcpChannel::Clock::now() + within;
  std::string text;
  while (text.empty()) {
    TcpChannel::Head head;
    if (!channel.read_head(head, deadline)) break;
    if (head.kind != remote::RemoteKind::text || head.bytes > kMessageMost) {
      problem = "it sent nonsense";
      return std::nullopt;
    }
    text.resize(head.bytes);
    if (!channel.read(std::as_writable_bytes(std::span(text)))) break;
  }
  if (channel.is_open()) return text;
  problem = channel.problem();
  return std::nullopt;
}

}  // namespace batchflow::service
