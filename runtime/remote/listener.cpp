#include "runtime/remote/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "core/config_error.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/secret.h"
#include "runtime/remote/token.h"

namespace batchflow {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kStrangersMost = 1024;
constexpr std::size_t kRanksMost = 1024;
constexpr int kTlsBegins = 22;  // the first byte of a handshake, and of no frame
constexpr std::size_t kTokenFrameMost = 4096;
constexpr auto kHearOut = 1s;
constexpr std::chrono::milliseconds kAfterWrongToken =
    1s;  // so that guessing takes longer than anybody lives

Descriptor listen_at(const std::string& address, int port, std::uint16_t& bound) {
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
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

// The address of who is connected, without his port.
std::string peer_of(int socket) {
  sockaddr_storage is{};
  socklen_t size = sizeof is;
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&is), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&is), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "elsewhere";
  return host.data();
}

// TCP takes back what was sent last on a connection that is closed with something unread. So what a
// guest still says is heard, and forgotten, until he has closed it, or for a moment.
void hear_out(const Stream& stream) {
  const auto until = Stream::Clock::now() + kHearOut;
  std::array<char, 4096> nothing;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Stream::Clock::now());
    pollfd wanted{stream.socket(), POLLIN, 0};
    if (left.count() <= 0 || poll(&wanted, 1, static_cast<int>(left.count())) <= 0 ||
        recv(stream.socket(), nothing.data(), nothing.size(), MSG_DONTWAIT) <= 0)
      return;
  }
}

bool hear_token(Stream& stream, Stream::Clock::time_point deadline, std::string& shown) {
  Stream::Head head;
  if (!stream.read_head(head, deadline) || head.kind != RemoteKind::text ||
      head.bytes > kTokenFrameMost)
    return false;
  std::string text(head.bytes, '\0');
  if (!stream.read(std::as_writable_bytes(std::span(text)))) return false;
  const auto message = nlohmann::json::parse(text, nullptr, false);
  if (message.is_object() && message.contains("token") && message["token"].is_string())
    shown = message["token"].get<std::string>();
  return true;
}

// Where there are few descriptors, jobs of this machine need them.
std::size_t strangers_most() {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0
             ? std::min<std::size_t>(kStrangersMost, files.rlim_cur / 4)
             : kStrangersMost;
}

struct RankCount {
  explicit RankCount(std::atomic<std::size_t>& of) : all(of), before(of.fetch_add(1)) {}
  ~RankCount() { --all; }
  RankCount(const RankCount&) = delete;
  std::atomic<std::size_t>& all;
  const std::size_t before;
};

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

RemoteListener::RemoteListener(const RemoteOptions& options, std::filesystem::path service)
    : options_(options), service_(std::move(service)), strangers_most_(strangers_most()) {
  if (options_.token_file.empty())
    throw ConfigError(
        "tcp: no token file; whoever reaches the port could read all data. Write "
        "token_file (--tcp-token FILE)");
  std::vector<std::string> tokens;
  if (const std::string problem = read_tokens(options_.token_file, tokens); !problem.empty())
    throw ConfigError("tcp: " + problem);
  if (options_.certificate.empty() != options_.key.empty())
    throw ConfigError("tcp: a certificate takes its key, and a key its certificate; write both");
  if (!options_.certificate.empty())
    tls_ = TlsContext::of_service(options_.certificate, options_.key);
  socket_ = listen_at(options_.address, options_.port, port_);
  stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] {
    block_signals();
    listen();
  });
}

RemoteListener::~RemoteListener() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = write(stop_.get(), &one, sizeof one);
  thread_.join();
  for (Guest& guest : guests_) {
    guest.shut("the service ends");
    guest.thread.join();
  }
}

void RemoteListener::Guest::shut(std::string_view why) {
  const std::lock_guard lock(mutex);
  if (stream) stream->shut(why);
  if (relay) relay->stop(why);
}

void RemoteListener::listen() {
  for (;;) {
    pollfd wanted[] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(wanted, 2, 1000);
    if (wanted[1].revents != 0) return;
    clear_away();
    if (wanted[0].revents == 0) continue;
    Descriptor socket;
    errno = EMFILE;
    if (!BF_FAILPOINT("remote.accept"))
      socket = Descriptor(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Out of descriptors: those who wait are still there when there are some again.
    if (!socket && (errno == EMFILE || errno == ENFILE)) std::this_thread::sleep_for(10ms);
    if (socket) let_in(std::move(socket));
  }
}

void RemoteListener::let_in(Descriptor socket) {
  make_room();
  Guest& guest = guests_.emplace_back();
  guest.stream = std::make_unique<Stream>(std::move(socket));
  try {
    if (BF_FAILPOINT("remote.thread"))
      throw std::system_error(EAGAIN, std::generic_category(), "a thread");
    guest.thread = std::thread([this, &guest] {
      block_signals();
      try {
        const MayRunOutOfMemory scope;
        receive(guest);
      } catch (const std::bad_alloc&) {
        // He is gone: his connection is closed.
      }
      const std::lock_guard lock(guest.mutex);
      guest.stream.reset();
      guest.relay.reset();
      guest.over = true;
    });
  } catch (const std::system_error&) {
    guests_.pop_back();  // as many threads as there may be: his connection is closed
  }
}

// Connections on which nobody says anything would keep out who does.
void RemoteListener::make_room() {
  std::size_t strangers = 0;
  for (Guest& guest : guests_) strangers += guest.is_stranger() ? 1 : 0;
  if (strangers < strangers_most_) return;
  for (auto oldest = guests_.begin(); oldest != guests_.end(); ++oldest) {
    {
      const std::lock_guard lock(oldest->mutex);
      if (!oldest->stream) continue;
      oldest->stream->shut("others came");
    }
    oldest->thread.join();
    guests_.erase(oldest);
    return;
  }
}

void RemoteListener::clear_away() {
  guests_.remove_if([](Guest& guest) {
    if (!guest.over) return false;
    guest.thread.join();
    return true;
  });
}

// Nothing a guest says is passed on before he has shown a token.
void RemoteListener::receive(Guest& guest) {
  Stream& stream = *guest.stream;
  const auto leave = [&stream](std::string_view why, std::string_view message) {
    stream.end_at(Stream::Clock::now() + kHearOut);
    if (stream.write_text(encode(Refused{std::string(why), std::string(message)})))
      hear_out(stream);
  };
  // For all of it, however few bytes come at a time.
  const auto deadline = Stream::Clock::now() + options_.handshake_time;
  stream.end_at(deadline);
  const int first = stream.first_byte(deadline);
  if (first < 0) return;
  if ((first == kTlsBegins) != static_cast<bool>(tls_))
    return leave("not_allowed", tls_ ? "this port speaks TLS alone; write tls://HOST:PORT"
                                     : "this port speaks no TLS; write tcp://HOST:PORT");
  std::string shown;
  if ((tls_ && !stream.handshake(tls_, true, "", deadline)) || !hear_token(stream, deadline, shown))
    return;
  // Read anew each time: a token that is taken out of the file opens nothing any more.
  std::vector<std::string> tokens;
  if (const std::string problem = read_tokens(options_.token_file, tokens); !problem.empty())
    return leave("not_yet", "the service cannot read its tokens: " + problem);
  bool known = false;
  for (const std::string& token : tokens) known = same_secret(token, shown) || known;
  if (!known) {
    pollfd ends{stream.socket(), 0, 0};
    poll(&ends, 1, static_cast<int>(kAfterWrongToken.count()));
    return leave(
        "not_allowed",
        "this service does not know the token; ask its operator for one, and name its file "
        "by BATCHFLOW_TOKEN_FILE");
  }
  std::string problem;
  Channel local = Channel::connect(service_, problem);
  if (!local.is_open()) return leave("not_yet", problem);
  const RankCount rank(ranks_);
  if (rank.before < kRanksMost) {
    stream.end_at(Stream::kNever);
    {
      const std::lock_guard lock(guest.mutex);
      std::string from = peer_of(stream.socket());
      guest.relay = std::make_unique<Relay>(std::move(guest.stream), std::move(local),
                                            std::move(from), large_frames_);
    }
    guest.relay->run();
  } else {
    leave("not_yet", fmt::format("this service has {} ranks of other machines, and may have no "
                                 "more; ask again when some have ended",
                                 kRanksMost));
  }
}

}  // namespace batchflow
