// How a connection to another node begins: it is made, a token lets it in, and the other side sends
// its first message.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/remote/tcp_channel.h"

namespace batchflow::service {

// With what a node shows others that it belongs to their cluster.
struct NodeAccess {
  std::string token_file;
  std::string authorities;  // of certificates; empty: those of the system
};

// Connects to tcp://HOST:PORT or tls://HOST:PORT and shows the token. `as`: remote::kAgent,
// remote::kPeer, or remote::kForwarded with the name of a feed. Null, with the reason in `problem`.
std::unique_ptr<remote::TcpChannel> connect_to_node(const std::string& address,
                                                    const NodeAccess& access, std::string_view as,
                                                    std::string& problem,
                                                    std::string_view feed = {});

// The next message that is not empty. Nothing, with the reason in `problem`: no message came in
// time, or what came is none.
std::optional<std::string> read_node_message(remote::TcpChannel& channel,
                                             std::chrono::seconds within, std::string& problem);

// Runs `what` on the service's thread, and waits for its answer. Nothing: the connection has ended
// meanwhile.
template <class Answer, class Post>
std::optional<Answer> on_service_thread(const Post& post, const remote::TcpChannel& channel,
                                        std::function<Answer()> what) {
  const auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  post([promise, what = std::move(what)] { promise->set_value(what()); });
  while (answer.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (!channel.is_open()) return std::nullopt;
  }
  return answer.get();
}

}  // namespace batchflow::service
