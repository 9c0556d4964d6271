#include "runtime/service/cluster/joining_coordinator.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/remote/remote_options.h"
#include "runtime/service/cluster/node_connection.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {
namespace {

using remote::TcpChannel;

constexpr std::chrono::seconds kWelcomeWithin{10};

void take_welcome(const std::string& text, const TermName& known, Joined& joined) {
  try {
    const NodeMessage message(text);
    if (message.type() == "welcome") {
      joined.term = message.term();
      joined.version = message.version();
      joined.page = message.page();
      if (joined.term.is_before(known)) {
        joined.problem = fmt::format("it serves term {}, and term {} has begun", joined.term.number,
                                     known.number);
      } else {
        joined.node = message.node();
      }
    } else if (message.type() == "refused") {
      joined.is_refused = message.text("why") != kNotYet;
      joined.problem = message.text("message");
    } else {
      joined.problem = fmt::format("it answered with a message of type '{}'", message.type());
    }
  } catch (const MessageError& error) {
    joined.problem = fmt::format("what answers there is no coordinator: {}", error.what());
  }
}

}  // namespace

std::string own_host(const TcpChannel& channel) {
  sockaddr_storage is{};
  socklen_t size = sizeof is;
  std::array<char, NI_MAXHOST> host{};
  getsockname(channel.socket(), reinterpret_cast<sockaddr*>(&is), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&is), size, host.data(), host.size(), nullptr, 0,
              NI_NUMERICHOST);
  return host.data();
}

Joined join_coordinator(const std::string& address, const Joiner& joiner,
                        const std::function<std::string(TcpChannel&)>& listen) {
  const NodeConfig& config = joiner.config;
  Joined joined;
  joined.address = address;
  const NodeAccess access{config.tcp.cluster_token_file, config.cluster.authorities};
  joined.channel = connect_to_node(address, access, remote::kAgent, joined.problem);
  if (!joined.channel) return joined;
  AgentGreeting greeting;
  greeting.version = kServiceVersion;
  greeting.name = config.cluster.name;
  greeting.state = joiner.state;
  greeting.term = joiner.term;
  greeting.cores = config.workers;
  greeting.memory = engine_bytes(config);
  try {
    greeting.address = listen(*joined.channel);
  } catch (const ConfigError& error) {
    joined.problem = error.what();
    joined.is_refused = true;
    return joined;
  }
  joined.channel->write_text(encode(greeting));
  const std::optional<std::string> answer =
      read_node_message(*joined.channel, kWelcomeWithin, joined.problem);
  if (answer) {
    take_welcome(*answer, joiner.term, joined);
  } else {
    joined.problem = fmt::format("what listens there does not answer as one: {}", joined.problem);
  }
  return joined;
}

}  // namespace batchflow::service
