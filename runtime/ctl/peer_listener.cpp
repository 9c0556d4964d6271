#include "runtime/ctl/peer_listener.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/peer_messages.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/secret.h"
#include "runtime/remote/accepting.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::ctl {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using remote::RemoteKind;
using remote::TcpChannel;

constexpr std::size_t kPeersMost = 32;
constexpr auto kGreetWithin = 5s;
constexpr int kLookEvery_ms = 100;

class PeerListener {
 public:
  explicit PeerListener(const PeerListenerOptions& options) : options_(options) {
    std::vector<std::string> tokens;
    if (const std::string problem = remote::read_tokens(options.token_file, tokens);
        !problem.empty())
      throw ConfigError("--token " + problem);
    remote::RemoteAddress address;
    std::string problem;
    if (!remote::parse_remote("tcp://" + options.address, address, problem))
      throw ConfigError(
          fmt::format("--listen {}: not an address; write ADDRESS:PORT", options.address));
    std::uint16_t port = 0;
    socket_ = remote::listen_at(address.host, std::stoi(address.port), port);
    const bool is_ipv6 = address.host.find(':') != std::string::npos;
    output::say(
        fmt::format("listening at {}:{}; measure by: batchflowctl calibrate DATASET --peer HOST:{} "
                    "--token FILE",
                    is_ipv6 ? "[" + address.host + "]" : address.host, port, port));
  }
  ~PeerListener() {
    for (Peer& peer : peers_) peer.channel.shut("the listener ends");
    for (Peer& peer : peers_) peer.thread.join();
  }

  bool serve() {
    while (!(options_.stop && options_.stop()) && !(options_.once && sessions_over_ > 0)) {
      pollfd wanted{socket_.get(), POLLIN, 0};
      const int ready = poll(&wanted, 1, kLookEvery_ms);
      peers_.remove_if([](Peer& peer) {
        if (!peer.over) return false;
        peer.thread.join();
        return true;
      });
      if (ready <= 0) continue;
      if (peers_.size() >= kPeersMost) {
        make_room();
        continue;
      }
      protocol::Descriptor socket(
          accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) let_in(std::move(socket));
    }
    const std::lock_guard lock(mutex_);
    return last_is_whole_;
  }

 private:
  struct Peer {
    explicit Peer(protocol::Descriptor socket)
        : channel(std::move(socket)), from(remote::address_of_peer(channel.socket())) {}
    TcpChannel channel;
    const std::string from;
    std::atomic<bool> is_known{false};  // it has shown a token
    std::atomic<bool> over{false};
    std::thread thread;
  };

  // The oldest connection that has shown no token must not keep out those that would.
  void make_room() {
    for (Peer& peer : peers_) {
      if (peer.is_known || !peer.channel.is_open()) continue;
      peer.channel.shut("newer connections need its room");
      break;
    }
    std::this_thread::sleep_for(10ms);  // until its thread has ended
  }

  void let_in(protocol::Descriptor socket) {
    Peer& peer = peers_.emplace_back(std::move(socket));
    try {
      peer.thread = std::thread([this, &peer] {
        try {
          receive(peer);
        } catch (const std::exception& error) {
          peer.channel.shut(error.what());
        }
        peer.channel.shut("");
        peer.over = true;
      });
    } catch (const std::system_error&) {
      peers_.pop_back();  // there are as many threads as there may be
    }
  }

  void refuse(Peer& peer, const std::string& why) {
    output::say(fmt::format("{} was refused: {}", peer.from, output::printable(why)));
    remote::write_last(peer.channel, json{{"type", "refused"}, {"message", why}}.dump());
  }

  void receive(Peer& peer) {
    TcpChannel& channel = peer.channel;
    channel.end_at(TcpChannel::Clock::now() + kGreetWithin);
    const json greeting = read_message(channel);
    if (channel.is_open() && type_of(greeting) != kPeerMagic)
      return refuse(peer,
                    "this is a listener of batchflowctl calibrate, and what came is not for it");
    if (channel.is_open() && number(greeting, "version") != kPeerVersion)
      return refuse(peer, fmt::format("this listener has version {} of the protocol, and the other "
                                      "side version {}; run the same BatchFlow on both",
                                      kPeerVersion, number(greeting, "version")));
    write_message(channel, peer_greeting());
    const json token = read_message(channel);
    if (!channel.is_open()) {
      output::say(fmt::format("{} was dropped before it showed a token: {}", peer.from,
                              output::printable(channel.problem())));
      return;
    }
    std::string problem;
    if (!remote::knows_token(channel, options_.token_file, text_of(token, "token"), problem))
      return refuse(peer, problem.empty() ? "this listener does not know the token; show one of "
                                            "its file by --token FILE"
                                          : "this listener cannot read its tokens: " + problem);
    peer.is_known = true;
    if (const std::string session = text_of(token, "session"); !session.empty())
      return join_session(peer, session);
    begin_session(peer, number(token, "seconds"));
  }

  void begin_session(Peer& peer, double seconds) {
    if (!(seconds > 0 && seconds <= kPeerSecondsMost))
      return refuse(peer, fmt::format("a part takes up to {} s", kPeerSecondsMost));
    std::string session;
    {
      const std::lock_guard lock(mutex_);
      if (session_.empty()) {
        session = session_ = protocol::make_secret();
        // Far beyond what a whole measurement takes.
        session_end_ = TcpChannel::Clock::now() + 60s +
                       std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 10'000));
      }
    }
    if (session.empty())
      return refuse(peer, "another node is measuring with this listener; try again later");
    greet(peer, session);
    output::say(fmt::format("{} measures", peer.from));
    const bool is_whole = answer_all(peer);
    output::say(is_whole ? fmt::format("{} has measured", peer.from)
                         : fmt::format("{} has left in the middle: {}", peer.from,
                                       output::printable(peer.channel.problem())));
    const std::lock_guard lock(mutex_);
    session_.clear();
    last_is_whole_ = is_whole;
    ++sessions_over_;
  }

  void join_session(Peer& peer, const std::string& session) {
    bool known = false;
    {
      const std::lock_guard lock(mutex_);
      known = !session_.empty() && protocol::same_secret(session_, session);
    }
    if (!known) return refuse(peer, "that measurement is over");
    greet(peer, session);
    answer_all(peer);
  }

  void greet(Peer& peer, const std::string& session) {
    {
      const std::lock_guard lock(mutex_);
      peer.channel.end_at(session_end_);
    }
    write_message(peer.channel, {{"type", "session"}, {"session", session}});
  }

  // True: the other side has said that it has all that it wanted.
  bool answer_all(Peer& peer) {
    TcpChannel& channel = peer.channel;
    for (TcpChannel::Head head; channel.read_head(head, TcpChannel::kNever);) {
      if (head.kind == RemoteKind::record && head.bytes <= kPeerMessageMost) {
        std::vector<std::byte> record(head.bytes);
        if (!channel.read(record) || !channel.write(RemoteKind::record, record)) return false;
        continue;
      }
      const json message = read_message(channel, head);
      const std::string type = type_of(message);
      if (type == "end") return true;
      Moved moved;
      const bool done =
          type == "take" ? take_bytes(channel, moved)
          : type == "give"
              ? give_bytes(channel, std::min(number(message, "seconds"), kPeerSecondsMost), moved)
              : false;
      if (!done ||
          !write_message(channel,
                         {{"type", "moved"}, {"bytes", moved.bytes}, {"cpu_s", moved.cpu_s}}))
        return false;
    }
    return false;
  }

  const PeerListenerOptions& options_;
  protocol::Descriptor socket_;
  std::list<Peer> peers_;  // of the thread that serves
  std::mutex mutex_;
  std::string session_;  // of the node that measures; empty: none
  TcpChannel::Clock::time_point session_end_;
  bool last_is_whole_ = true;
  std::atomic<unsigned> sessions_over_ = 0;
};

}  // namespace

bool serve_peers(const PeerListenerOptions& options) {
  return PeerListener(options).serve();
}

}  // namespace batchflow::ctl
