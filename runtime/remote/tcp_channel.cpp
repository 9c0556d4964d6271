#include "runtime/remote/tcp_channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::remote {
namespace {

std::string tls_problem() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING  // since OpenSSL 3
  const bool is_closed = ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#else
  const bool is_closed = false;
#endif
  if (code == 0 || is_closed) return "the connection was closed";
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::strerror(ERR_GET_REASON(code));
  if (const char* reason = ERR_reason_error_string(code)) return reason;
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

std::string handshake_problem(const ssl_st* tls, const std::string& setting) {
  switch (ERR_GET_REASON(ERR_peek_error())) {
    case SSL_R_WRONG_VERSION_NUMBER:
      return "the other side does not speak TLS; write tcp:// for a service without a certificate";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return fmt::format("{} ({}); {} names the authorities that are trusted", tls_problem(),
                         X509_verify_cert_error_string(SSL_get_verify_result(tls)), setting);
    default:
      return tls_problem();
  }
}

// A frame of at most so many bytes goes to the system in one piece with its head.
constexpr std::size_t kJoinedMost = 16384;

// Blocks SIGPIPE. The TLS library writes with write(2), which would end the process of a user when
// the other side has closed the connection.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

int milliseconds_until(TcpChannel::Clock::time_point deadline) {
  if (deadline == TcpChannel::Clock::time_point::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - TcpChannel::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

std::shared_ptr<ssl_ctx_st> make_context(const SSL_METHOD* method) {
  std::shared_ptr<ssl_ctx_st> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // What could not be written at once is written later, perhaps from where it has moved to.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

}  // namespace

// -------------------------------------------------------------------------------- addresses ----

bool parse_remote(std::string_view address, RemoteAddress& out, std::string& problem) {
  out.tls = address.starts_with("tls://");
  const bool has_scheme = out.tls || address.starts_with("tcp://");
  const std::string_view rest = has_scheme ? address.substr(6) : "";
  const std::size_t colon = rest.rfind(':');
  std::string_view host = rest.substr(0, colon);
  const std::string_view port =
      colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty() || port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string_view::npos ||
      std::stoi(std::string(port)) > 65535) {
    problem =
        fmt::format("'{}' is not an address; write tcp://HOST:PORT or tls://HOST:PORT", address);
    return false;
  }
  out.host = host;
  out.port = port;
  return true;
}

// -------------------------------------------------------------------------------------- TLS ----

TlsContext TlsContext::of_service(const std::string& certificate, const std::string& key) {
  TlsContext made;
  made.context_ = make_context(TLS_server_method());
  const auto refuse = [](const std::string& file) {
    return ConfigError(
        fmt::format("{}: {}; name a certificate and its key in PEM", file, tls_problem()));
  };
  if (!made.context_) throw ConfigError("no TLS: " + tls_problem());
  for (const std::string& file : {certificate, key}) {
    constexpr off_t kBytesMost = 4 << 20;
    struct stat status {};
    if (stat(file.c_str(), &status) != 0 ||
        (S_ISREG(status.st_mode) && status.st_size <= kBytesMost))
      continue;
    throw ConfigError(fmt::format(
        "{}: {}; name a certificate and its key in PEM", file,
        S_ISREG(status.st_mode)
            ? fmt::format("it has {} bytes, of which {} are the most", status.st_size, kBytesMost)
            : "it is no regular file"));
  }
  if (SSL_CTX_use_certificate_chain_file(made.get(), certificate.c_str()) != 1)
    throw refuse(certificate);
  if (SSL_CTX_use_PrivateKey_file(made.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    throw refuse(key);
  if (SSL_CTX_check_private_key(made.get()) != 1) throw refuse(key);
  return made;
}

TlsContext TlsContext::of_client(const std::string& authorities, std::string& problem,
                                 std::string_view setting) {
  TlsContext made;
  made.setting_ = setting;
  made.context_ = make_context(TLS_client_method());
  if (!made.context_) {
    problem = "no TLS: " + tls_problem();
    return {};
  }
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
  const int trusted = authorities.empty()
                          ? SSL_CTX_set_default_verify_paths(made.get())
                          : SSL_CTX_load_verify_locations(made.get(), authorities.c_str(), nullptr);
  if (trusted == 1) return made;
  problem = fmt::format("{}: {}; name a file of certificates in PEM ({})", authorities,
                        tls_problem(), setting);
  return {};
}

// ---------------------------------------------------------------------------------- channel ----

TcpChannel::TcpChannel(protocol::Descriptor socket)
    : socket_(std::move(socket)), tls_(nullptr, SSL_free) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  // A machine that is gone sends nothing. These settings notice it within a minute.
  const int idle = 20, every = 10, times = 4;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

TcpChannel::~TcpChannel() = default;

std::unique_ptr<TcpChannel> TcpChannel::connect(const RemoteAddress& address, const TlsContext* tls,
                                                Clock::time_point deadline, std::string& problem,
                                                std::string_view what_to_do) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, [](addrinfo* list) {
    if (list) freeaddrinfo(list);
  });
  problem = error != 0 ? gai_strerror(error) : "";
  bool has_answered = false;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    protocol::Descriptor socket(
        ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int failed = 0;
    if (!socket || (::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0 &&
                    (failed = errno) == EINPROGRESS)) {
      pollfd connected{socket.get(), POLLOUT, 0};
      socklen_t size = sizeof failed;
      if (!socket || poll(&connected, 1, milliseconds_until(deadline)) <= 0 ||
          getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
        failed = ETIMEDOUT;
    }
    if (BF_FAILPOINT("remote.connect")) failed = ECONNREFUSED;
    if (failed != 0) {
      problem = std::strerror(failed);
      continue;
    }
    auto channel = std::make_unique<TcpChannel>(std::move(socket));
    if (tls == nullptr || channel->handshake(*tls, false, address.host, deadline)) return channel;
    problem = channel->problem();
    has_answered = true;
  }
  problem = fmt::format("{}:{}: {}", address.host, address.port, problem);
  if (!has_answered) problem = fmt::format("no service answers ({}); {}", problem, what_to_do);
  return nullptr;
}

int TcpChannel::first_byte(Clock::time_point deadline) {
  unsigned char byte = 0;
  while (wait(POLLIN, deadline)) {
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 1) return byte;
    if (got == 0) shut("the other side has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) shut(std::strerror(errno));
  }
  return -1;
}

bool TcpChannel::handshake(const TlsContext& tls, bool accepts, const std::string& host,
                           Clock::time_point deadline) {
  tls_.reset(SSL_new(tls.get()));
  if (!tls_) {
    shut("TLS: " + tls_problem());
    return false;
  }
  SSL_set_fd(tls_.get(), socket_.get());
  ERR_clear_error();  // other code may have left errors in this thread
  if (!accepts) {
    SSL_set_tlsext_host_name(tls_.get(), host.c_str());
    SSL_set1_host(tls_.get(), host.c_str());
  }
  if (BF_FAILPOINT("remote.handshake")) {
    shut("TLS: the connection was closed");
    return false;
  }
  for (;;) {
    const NoPipeSignal quiet;
    const int done = accepts ? SSL_accept(tls_.get()) : SSL_connect(tls_.get());
    if (done == 1) return true;
    const int why = SSL_get_error(tls_.get(), done);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
      if (!wait(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) return false;
      continue;
    }
    shut("TLS: " + handshake_problem(tls_.get(), tls.setting()));
    return false;
  }
}

void TcpChannel::shut(std::string_view why) {
  const std::lock_guard lock(problem_mutex_);
  if (!open_.exchange(false)) return;
  problem_ = why;
  ::shutdown(socket_.get(), SHUT_RDWR);
}

std::string TcpChannel::problem() const {
  const std::lock_guard lock(problem_mutex_);
  return problem_;
}

// False, and the channel is closed, when the time is over.
bool TcpChannel::wait(short events, Clock::time_point deadline) {
  deadline = std::min(deadline, end_);
  while (is_open()) {
    pollfd wanted{socket_.get(), events, 0};
    const int ready = poll(&wanted, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno == EINTR) continue;
    shut("the other side has sent nothing, or taken nothing, for too long");
  }
  return false;
}

std::ptrdiff_t TcpChannel::transfer_some(bool writes, std::byte* bytes, std::size_t count,
                                         short& wants) {
  if (writes ? BF_FAILPOINT("remote.write") : BF_FAILPOINT("remote.read")) {
    shut(std::strerror(ECONNRESET));
    return -1;
  }
  if (!tls_) {
    count = writes ? BF_FAILPOINT_SHORT("remote.write.short", count)
                   : BF_FAILPOINT_SHORT("remote.read.short", count);
    const ssize_t moved = writes ? send(socket_.get(), bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT)
                                 : recv(socket_.get(), bytes, count, MSG_DONTWAIT);
    if (moved > 0) return moved;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      wants = writes ? POLLOUT : POLLIN;
      return 0;
    }
    shut(moved == 0 ? "the other side has closed the connection" : std::strerror(errno));
    return -1;
  }
  const std::lock_guard lock(tls_mutex_);
  const NoPipeSignal quiet;
  std::size_t moved = 0;
  const int done = writes ? SSL_write_ex(tls_.get(), bytes, count, &moved)
                          : SSL_read_ex(tls_.get(), bytes, count, &moved);
  if (done == 1) return static_cast<std::ptrdiff_t>(moved);
  const int why = SSL_get_error(tls_.get(), done);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    wants = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return 0;
  }
  shut(why == SSL_ERROR_ZERO_RETURN ? "the other side has closed the connection"
                                    : "TLS: " + tls_problem());
  return -1;
}

bool TcpChannel::transfer(bool writes, std::byte* bytes, std::size_t count,
                          Clock::time_point first_deadline) {
  Clock::time_point deadline = first_deadline;
  while (count > 0) {
    if (!is_open()) return false;
    if (end_ != kNever && Clock::now() >= end_) {
      shut("the time for this is over");
      return false;
    }
    short wants = 0;
    const std::ptrdiff_t moved = transfer_some(writes, bytes, count, wants);
    if (moved < 0) return false;
    if (moved == 0) {
      if (!wait(wants, deadline)) return false;
      continue;
    }
    bytes += moved;
    count -= static_cast<std::size_t>(moved);
    deadline = Clock::now() + kPatience;
  }
  return true;
}

std::array<std::byte, TcpChannel::kHeadBytes> TcpChannel::head_of(RemoteKind kind,
                                                                  std::uint64_t bytes) {
  std::array<std::byte, kHeadBytes> head{};
  std::memcpy(head.data(), &kind, sizeof kind);
  std::memcpy(head.data() + 8, &bytes, sizeof bytes);
  return head;
}

bool TcpChannel::write_parts(RemoteKind kind, std::span<const std::span<const std::byte>> parts) {
  const std::lock_guard lock(write_mutex_);
  std::uint64_t size = 0;
  for (const std::span<const std::byte> part : parts) size += part.size();
  const auto head = head_of(kind, size);
  const auto write = [this](std::span<const std::byte> bytes) {
    return transfer(true, const_cast<std::byte*>(bytes.data()), bytes.size(),
                    Clock::now() + kPatience);
  };
  if (size > kJoinedMost) return write(head) && std::all_of(parts.begin(), parts.end(), write);
  std::array<std::byte, kHeadBytes + kJoinedMost> joined;
  auto end = std::copy(head.begin(), head.end(), joined.begin());
  for (const std::span<const std::byte> part : parts)
    end = std::copy(part.begin(), part.end(), end);
  return write(std::span(joined.begin(), end));
}

bool TcpChannel::write_text(std::string_view text) {
  return write(RemoteKind::text, std::as_bytes(std::span(text)));
}

bool TcpChannel::has_pending() const {
  return tls_ && SSL_has_pending(tls_.get()) == 1;
}

bool TcpChannel::read_head(Head& head, Clock::time_point deadline) {
  std::array<std::byte, kHeadBytes> bytes{};
  return transfer(false, bytes.data(), bytes.size(), deadline) && take_head(bytes, head);
}

bool TcpChannel::look_for_head(Head& head, bool& came) {
  std::array<std::byte, kHeadBytes> bytes{};
  short wants = 0;
  const std::ptrdiff_t moved = transfer_some(false, bytes.data(), bytes.size(), wants);
  came = moved > 0;
  if (moved <= 0) return moved == 0;
  const auto begun = static_cast<std::size_t>(moved);
  return transfer(false, bytes.data() + begun, bytes.size() - begun, Clock::now() + kPatience) &&
         take_head(bytes, head);
}

bool TcpChannel::take_head(std::span<const std::byte> bytes, Head& head) {
  std::uint32_t kind = 0;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  std::memcpy(&head.bytes, bytes.data() + 8, sizeof head.bytes);
  head.kind = static_cast<RemoteKind>(kind);
  if (kind >= 1 && kind <= 3) return true;
  shut(fmt::format("there is no frame of kind {}", kind));
  return false;
}

bool TcpChannel::read(std::span<std::byte> bytes) {
  return transfer(false, bytes.data(), bytes.size(), Clock::now() + kPatience);
}

}  // namespace batchflow::remote
