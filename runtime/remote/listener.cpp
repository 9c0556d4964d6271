#include "runtime/remote/listener.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/protocol/messages.h"
#include "runtime/remote/accepting.h"
#include "runtime/remote/feed_relay.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::remote {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kUnknownMost = 1024;
constexpr std::size_t kRanksMost = 1024;
constexpr std::size_t kProducersMost = 1024;
constexpr int kTlsBegins = 22;  // the first byte of a TLS handshake; no frame begins with it
constexpr std::size_t kTokenFrameMost = 4096;
constexpr std::size_t kSaidMost = 64;  // lines of refusals that are remembered

// What a connection says first.
struct Shown {
  std::string token, as, feed;
};

bool read_token(TcpChannel& channel, TcpChannel::Clock::time_point deadline, Shown& shown) {
  TcpChannel::Head head;
  if (!channel.read_head(head, deadline) || head.kind != RemoteKind::text ||
      head.bytes > kTokenFrameMost)
    return false;
  std::string text(head.bytes, '\0');
  if (!channel.read(std::as_writable_bytes(std::span(text)))) return false;
  const auto message = nlohmann::json::parse(text, nullptr, false);
  const auto take = [&message](const char* key, std::string& into) {
    if (message.is_object() && message.contains(key) && message[key].is_string())
      into = message[key].get<std::string>();
  };
  take("token", shown.token);
  take("as", shown.as);
  take("feed", shown.feed);
  return true;
}

// How many connections may be open that have shown no token. Where a process may have few
// descriptors, most of them are for jobs of this machine.
std::size_t unknown_most() {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0
             ? std::min<std::size_t>(kUnknownMost, files.rlim_cur / 4)
             : kUnknownMost;
}

struct Counted {
  explicit Counted(std::atomic<std::size_t>& of) : all(of), before(of.fetch_add(1)) {}
  ~Counted() { --all; }
  Counted(const Counted&) = delete;
  std::atomic<std::size_t>& all;
  const std::size_t before;
};

// For people. What has not shown a token may call itself anything.
std::string_view called(std::string_view as) {
  if (as == kAgent) return "an agent";
  if (as == kPeer) return "a node";
  if (as == kForwarded) return "an agent that forwards a producer";
  if (as == kProducer) return "a producer";
  return as.empty() ? "a job" : "a connection";
}

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

RemoteListener::RemoteListener(const RemoteOptions& options, std::filesystem::path service,
                               ServeNode serve_node, OpenFeed open_feed, SayRefused say_refused)
    : options_(options),
      service_(std::move(service)),
      serve_node_(std::move(serve_node)),
      open_feed_(std::move(open_feed)),
      say_refused_(std::move(say_refused)),
      unknown_most_(unknown_most()) {
  if (options_.token_file.empty() && options_.cluster_token_file.empty())
    throw ConfigError(
        "tcp: no token file; every program that reaches the port could read all data. Write "
        "token_file (--tcp-token FILE)");
  for (const std::string& file : {options_.token_file, options_.cluster_token_file}) {
    std::vector<std::string> tokens;
    if (const std::string problem = file.empty() ? "" : read_tokens(file, tokens); !problem.empty())
      throw ConfigError("tcp: " + problem);
  }
  if (options_.certificate.empty() != options_.key.empty())
    throw ConfigError("tcp: a certificate needs its key, and a key its certificate; write both");
  if (!options_.certificate.empty())
    tls_ = TlsContext::of_service(options_.certificate, options_.key);
  socket_ = listen_at(options_.address, options_.port, port_);
  stop_ = protocol::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "bf-listen");
    block_signals();
    listen();
  });
}

RemoteListener::~RemoteListener() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
  for (Peer& peer : peers_) {
    peer.shut("the service ends");
    peer.thread.join();
  }
}

void RemoteListener::Peer::shut(std::string_view why) {
  const std::lock_guard lock(mutex);
  if (channel) channel->shut(why);
  if (relay) relay->stop(why);
}

void RemoteListener::listen() {
  for (;;) {
    pollfd wanted[] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(wanted, 2, 1000);
    if (wanted[1].revents != 0) return;
    remove_ended();
    if (wanted[0].revents == 0) continue;
    protocol::Descriptor socket;
    errno = EMFILE;
    if (!BF_FAILPOINT("remote.accept"))
      socket = protocol::Descriptor(
          accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Without descriptors, connections wait in the kernel until there are some again.
    if (!socket && (errno == EMFILE || errno == ENFILE)) std::this_thread::sleep_for(10ms);
    if (socket) let_in(std::move(socket));
  }
}

void RemoteListener::let_in(protocol::Descriptor socket) {
  make_room();
  Peer& peer = peers_.emplace_back();
  peer.channel = std::make_unique<TcpChannel>(std::move(socket));
  try {
    if (BF_FAILPOINT("remote.thread"))
      throw std::system_error(EAGAIN, std::generic_category(), "a thread");
    peer.thread = std::thread([this, &peer] {
      pthread_setname_np(pthread_self(), "bf-relay");
      block_signals();
      try {
        const memory::MayRunOutOfMemory scope;
        receive(peer);
      } catch (const std::bad_alloc&) {
        // Its connection is closed below.
      }
      const std::lock_guard lock(peer.mutex);
      peer.channel.reset();
      peer.relay.reset();
      peer.over = true;
    });
  } catch (const std::system_error&) {
    peers_.pop_back();  // there are as many threads as there may be: the connection is closed
  }
}

// Connections that show no token must not keep out those that would.
void RemoteListener::make_room() {
  std::size_t unknown = 0;
  for (Peer& peer : peers_) {
    const std::lock_guard lock(peer.mutex);
    unknown += peer.is_unknown() ? 1 : 0;
  }
  if (unknown < unknown_most_) return;
  for (auto oldest = peers_.begin(); oldest != peers_.end(); ++oldest) {
    {
      const std::lock_guard lock(oldest->mutex);
      if (!oldest->is_unknown()) continue;
      oldest->channel->shut("newer connections need its room");
    }
    oldest->thread.join();
    peers_.erase(oldest);
    return;
  }
}

void RemoteListener::remove_ended() {
  peers_.remove_if([](Peer& peer) {
    if (!peer.over) return false;
    peer.thread.join();
    return true;
  });
}

// It has shown its token, and has no bound of time any more.
void RemoteListener::begin_serving(Peer& peer) {
  peer.channel->end_at(TcpChannel::kNever);
  const std::lock_guard lock(peer.mutex);
  peer.is_known = true;
}

// The other side is told, and so is the operator.
void RemoteListener::refuse(TcpChannel& channel, std::string_view as, std::string_view why,
                            std::string_view message) {
  if (say_refused_) {
    const std::string line = fmt::format("{} at {} was refused: {}", called(as),
                                         address_of_peer(channel.socket()), message);
    const std::lock_guard lock(said_mutex_);
    if (said_.size() >= kSaidMost) said_.clear();
    if (said_.insert(line).second) say_refused_(line);
  }
  write_last(channel, protocol::encode(protocol::Refused{std::string(why), std::string(message)}));
}

void RemoteListener::serve_producer(Peer& peer, const std::string& feed) {
  const Counted producer(producers_);
  if (producer.before >= kProducersMost)
    return refuse(*peer.channel, kProducer, "not_yet",
                  fmt::format("this service has {} producers on other machines, and takes no more; "
                              "ask again when some have ended",
                              kProducersMost));
  // The feed may be on another node, which takes its time to answer.
  begin_serving(peer);
  const OpenedFeed opened = open_feed_ ? open_feed_(feed) : open_feed_in("", feed);
  if (!opened.end) return refuse(*peer.channel, kProducer, opened.why, opened.problem);
  if (peer.channel->write_text(kFeedOpen)) relay_feed(*peer.channel, *opened.end);
}

// Nothing that a peer sends is passed on before it has shown a token.
void RemoteListener::receive(Peer& peer) {
  TcpChannel& channel = *peer.channel;
  Shown shown;
  const auto leave = [&](std::string_view why, std::string_view message) {
    refuse(channel, shown.as, why, message);
  };
  // The bound is for all that comes before the token, however few bytes come at a time.
  const auto deadline = TcpChannel::Clock::now() + options_.handshake_time;
  channel.end_at(deadline);
  const int first = channel.first_byte(deadline);
  if (first < 0) return;
  if ((first == kTlsBegins) != static_cast<bool>(tls_))
    return refuse(channel, "unknown", "not_allowed",
                  tls_ ? "this port speaks only TLS; write tls://HOST:PORT"
                       : "this port speaks no TLS; write tcp://HOST:PORT");
  std::string problem;
  if ((tls_ && !channel.handshake(tls_, true, "", deadline)) ||
      !read_token(channel, deadline, shown))
    return;
  const bool is_node = shown.as == kAgent || shown.as == kPeer || shown.as == kForwarded;
  const std::string& file = is_node ? options_.cluster_token_file : options_.token_file;
  const bool known = !file.empty() && knows_token(channel, file, shown.token, problem);
  if (!problem.empty()) return leave("not_yet", "the service cannot read its tokens: " + problem);
  if (!known)
    return leave(
        "not_allowed",
        is_node ? "this service does not know the node's token; give both the same file of tokens "
                  "(--cluster-token FILE)"
                : "this service does not know the token; ask its operator for one, and name the "
                  "file that holds it by BATCHFLOW_TOKEN_FILE");
  // The agent has looked at its producer's token, and its operator has let producers come.
  if (shown.as == kForwarded) return serve_producer(peer, shown.feed);
  if (is_node) {
    begin_serving(peer);
    return serve_node_(channel, shown.as, address_of_peer(channel.socket()));
  }
  if (shown.as == kProducer) {
    if (options_.feeds) return serve_producer(peer, shown.feed);
    return leave("not_allowed",
                 "this service takes no records over TCP; have its operator start it with "
                 "--tcp-feeds (tcp: {feeds: true})");
  }
  if (service_.empty())
    return leave("not_allowed",
                 "this node takes no jobs of other machines; have them join at its coordinator");
  protocol::Channel local = protocol::Channel::connect(service_, problem);
  if (!local.is_open()) return leave("not_yet", problem);
  const Counted rank(ranks_);
  if (rank.before < kRanksMost) {
    channel.end_at(TcpChannel::kNever);
    {
      const std::lock_guard lock(peer.mutex);
      std::string from = address_of_peer(channel.socket());
      peer.relay = std::make_unique<Relay>(std::move(peer.channel), std::move(local),
                                           std::move(from), large_frames_);
    }
    peer.relay->run();
  } else {
    leave("not_yet", fmt::format("this service has {} ranks on other machines, and takes no more; "
                                 "ask again when some have ended",
                                 kRanksMost));
  }
}

}  // namespace batchflow::remote
