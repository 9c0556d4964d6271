#include "runtime/objects/http_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>

namespace batchflow::objects {
namespace {

namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBuffer = 32 << 10;
constexpr std::uint32_t kHeadMost = 32 << 10;
constexpr std::string_view kLate = "it took too long";
constexpr auto kLookAround = std::chrono::milliseconds(100);  // for `stop`

std::string tls_problem(std::string_view what) {
  const unsigned long code = ERR_get_error();
  std::string text = fmt::format("{} failed", what);
  if (code != 0) {
    char words[256];
    ERR_error_string_n(code, words, sizeof words);
    text += fmt::format(": {}", words);
  }
  ERR_clear_error();
  return text;
}

// The TLS library writes with write(2), which would end the process when the other end is gone.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

std::string request_text(const HttpRequest& request, const Endpoint& endpoint) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: batchflow\r\n",
                                 request.method, request.target, endpoint.host_header());
  for (const auto& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
    text += fmt::format("Content-Length: {}\r\n", request.body.size());
  return text + "\r\n" + request.body;
}

std::string as_string(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

ssl_ctx_st* TlsContext::get(std::string& problem) {
  if (context_) return context_;
  SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
  const bool good = made && SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) == 1 &&
                    (authorities_.empty()
                         ? SSL_CTX_set_default_verify_paths(made)
                         : SSL_CTX_load_verify_locations(made, authorities_.c_str(), nullptr)) == 1;
  if (good) {
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return context_ = made;
  }
  problem = tls_problem(fmt::format("reading certificates {}", authorities_));
  SSL_CTX_free(made);
  return nullptr;
}

HttpConnection::~HttpConnection() {
  close();
}

void HttpConnection::close() {
  SSL_free(ssl_);
  ssl_ = nullptr;
  socket_.reset();
  used_ = false;
  keeps_ = true;
}

bool HttpConnection::wait(Wait what, const HttpLimits& limits, std::string& problem) const {
  const auto idle_until = Clock::now() + limits.idle;
  for (;;) {
    if (limits.stop && *limits.stop) return problem = "stopped", false;
    const auto now = Clock::now();
    const auto until = std::min(idle_until, limits.until);
    if (now >= until) {
      problem = idle_until <= limits.until
                    ? fmt::format("{}: nothing came for {} ms", kLate, limits.idle.count())
                    : fmt::format("{} in all", kLate);
      return false;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    pollfd wanted{socket_.get(), static_cast<short>(what == Wait::readable ? POLLIN : POLLOUT), 0};
    if (poll(&wanted, 1, static_cast<int>(std::min(left, kLookAround).count())) > 0) return true;
  }
}

bool HttpConnection::connect(const HttpLimits& limits, std::string& problem) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(endpoint_.host.c_str(), std::to_string(endpoint_.port).c_str(), &wanted, &found);
  if (error != 0) {
    problem = fmt::format("{} is not found: {}", endpoint_.host, gai_strerror(error));
    return false;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one; one = one->ai_next) {
    close();
    socket_ = protocol::Descriptor(
        socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
    const int on = 1;
    if (!socket_) {
      problem = std::strerror(errno);
      continue;
    }
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket_.get(), one->ai_addr, one->ai_addrlen) != 0 && errno != EINPROGRESS) {
      problem = std::strerror(errno);
      continue;
    }
    int failed = 0;
    socklen_t bytes = sizeof failed;
    if (!wait(Wait::writable, limits, problem)) continue;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
    problem = failed == 0 ? "" : std::strerror(failed);
    if (failed != 0) continue;
    if (endpoint_.tls) return begin_tls(limits, problem);
    wait_in_calls();
    return true;
  }
  close();
  problem = fmt::format("no connection to {}: {}", endpoint_.host_header(), problem);
  return false;
}

// Calls that wait by themselves, for a while, cost half of calls that are made when poll says so.
void HttpConnection::wait_in_calls() const {
  constexpr timeval kWhile{0, 1000 * kLookAround.count()};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kWhile, sizeof kWhile);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kWhile, sizeof kWhile);
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
}

bool HttpConnection::begin_tls(const HttpLimits& limits, std::string& problem) {
  ssl_ctx_st* const context = tls_.get(problem);
  ssl_ = context ? SSL_new(context) : nullptr;
  if (!ssl_) return false;
  const char* const host = endpoint_.host.c_str();
  const bool named =
      is_address(endpoint_.host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host) == 1
          : SSL_set1_host(ssl_, host) == 1 && SSL_set_tlsext_host_name(ssl_, host) == 1;
  if (!named || SSL_set_fd(ssl_, socket_.get()) != 1) {
    problem = tls_problem("TLS");
    return false;
  }
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(ssl_);
    if (done == 1) return true;
    const int why = SSL_get_error(ssl_, done);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
      const long verified = SSL_get_verify_result(ssl_);
      problem = verified == X509_V_OK ? tls_problem("TLS")
                                      : fmt::format("its certificate is not believed: {}",
                                                    X509_verify_cert_error_string(verified));
      return false;
    }
    if (!wait(why == SSL_ERROR_WANT_READ ? Wait::readable : Wait::writable, limits, problem))
      return false;
  }
}

bool HttpConnection::send_all(std::string_view bytes, const HttpLimits& limits,
                              std::string& problem) {
  while (!bytes.empty()) {
    Wait next = Wait::writable;
    std::ptrdiff_t sent = 0;
    if (ssl_) {
      ERR_clear_error();
      const int most = static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20));
      sent = SSL_write(ssl_, bytes.data(), most);
      const int why = sent > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(sent));
      if (why == SSL_ERROR_WANT_READ) next = Wait::readable;
      if (sent <= 0 && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
        problem = "the other end has closed";
        return false;
      }
    } else {
      sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        problem = std::strerror(errno);
        return false;
      }
    }
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (!wait(next, limits, problem)) {
      return false;
    }
  }
  return true;
}

std::ptrdiff_t HttpConnection::receive(std::byte* to, std::size_t bytes, const HttpLimits& limits,
                                       std::string& problem) {
  for (auto now = Clock::now(), idle_until = now + limits.idle;; now = Clock::now()) {
    // A slow drip ends here, since something may always be there.
    if (now >= limits.until) return problem = fmt::format("{} in all", kLate), -1;
    if (limits.stop && *limits.stop) return problem = "stopped", -1;
    if (ssl_) {
      Wait next = Wait::readable;
      ERR_clear_error();
      const int most = static_cast<int>(std::min<std::size_t>(bytes, 1 << 30));
      const int got = SSL_read(ssl_, to, most);
      if (got > 0) return got;
      const int why = SSL_get_error(ssl_, got);
      if (why == SSL_ERROR_ZERO_RETURN) return 0;
      if (why == SSL_ERROR_WANT_WRITE) next = Wait::writable;
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return problem = "the connection was cut", -1;
      if (!wait(next, limits, problem)) return -1;
    } else {
      const ssize_t got = recv(socket_.get(), to, bytes, 0);
      if (got >= 0) return got;
      if (errno != EAGAIN && errno != EINTR) return problem = std::strerror(errno), -1;
      if (now >= idle_until) {
        problem = fmt::format("{}: nothing came for {} ms", kLate, limits.idle.count());
        return -1;
      }
    }
  }
}

HttpAnswer HttpConnection::exchange(const HttpRequest& request, const Parts& to,
                                    const HttpLimits& limits) {
  HttpAnswer answer;
  std::optional<PipeSignalBlocked> blocked;
  if (endpoint_.tls) blocked.emplace();
  if (!is_open()) {
    close();
    if (!connect(limits, answer.problem)) {
      close();
      return answer;
    }
  }
  if (send_all(request_text(request, endpoint_), limits, answer.problem))
    take(answer, request, to, limits);
  if (answer.is_whole) {
    used_ = true;
  } else {
    close();
    answer.is_late = answer.problem.starts_with(kLate);
    if (answer.problem.empty()) answer.problem = "the connection was cut";
  }
  return answer;
}

template <class Parser>
bool HttpConnection::take_head(Parser& head, std::size_t& held, const HttpLimits& limits,
                               std::string& problem) {
  boost::system::error_code error;
  while (!head.is_header_done()) {
    if (held == buffer_.size()) {
      problem = "the head of its answer does not end";
      return false;
    }
    const std::ptrdiff_t got =
        receive(buffer_.data() + held, buffer_.size() - held, limits, problem);
    if (got <= 0) return false;
    held += static_cast<std::size_t>(got);
    const std::size_t taken = head.put(boost::asio::buffer(buffer_.data(), held), error);
    if (error && error != http::error::need_more) {
      problem = fmt::format("its answer is no HTTP: {}", error.message());
      return false;
    }
    std::memmove(buffer_.data(), buffer_.data() + taken, held - taken);
    held -= taken;
  }
  return true;
}

void HttpConnection::take_into(HttpAnswer& answer, Parts to, std::size_t held,
                               const HttpLimits& limits) {
  if (held > to.left()) {
    answer.problem = "its body is longer than its head says";
    return;
  }
  to.put(std::span(buffer_).first(held));
  answer.in_memory = held;
  while (to.left() > 0) {
    const std::span<std::byte> part = to.next();
    const std::ptrdiff_t got = receive(part.data(), part.size(), limits, answer.problem);
    if (got <= 0) return;
    to.skip(static_cast<Bytes>(got));
    answer.in_memory += static_cast<Bytes>(got);
  }
  answer.is_whole = true;
}

template <class Parser>
bool HttpConnection::take_body(Parser& body, std::size_t held, const HttpLimits& limits,
                               std::string& problem) {
  boost::system::error_code error;
  bool ended = false;
  while (!body.is_done()) {
    if (held > 0) {
      const std::size_t taken = body.put(boost::asio::buffer(buffer_.data(), held), error);
      if (error && error != http::error::need_more) {
        problem = error == http::error::body_limit
                      ? "its body is longer than was asked for"
                      : fmt::format("its body is no HTTP: {}", error.message());
        return false;
      }
      std::memmove(buffer_.data(), buffer_.data() + taken, held - taken);
      held -= taken;
      if (body.is_done()) break;
      if (taken > 0 && !error) continue;
    }
    if (ended || held == buffer_.size()) return false;
    const std::ptrdiff_t got =
        receive(buffer_.data() + held, buffer_.size() - held, limits, problem);
    if (got < 0) return false;
    ended = got == 0;
    held += static_cast<std::size_t>(got);
    if (!ended) continue;
    body.put_eof(error);
    if (error || !body.is_done()) return false;
  }
  keeps_ = keeps_ && !ended && held == 0;
  return true;
}

void HttpConnection::take(HttpAnswer& answer, const HttpRequest& request, Parts to,
                          const HttpLimits& limits) {
  buffer_.resize(kBuffer);
  http::response_parser<http::empty_body> head;
  head.header_limit(kHeadMost);
  // Boost 1.74 takes none for 0.
  head.body_limit(std::numeric_limits<std::uint64_t>::max());
  if (request.method == "HEAD") head.skip(true);
  std::size_t held = 0;
  if (!take_head(head, held, limits, answer.problem)) return;
  const auto& message = head.get();
  const auto header = [&](boost::beast::string_view name) { return as_string(message[name]); };
  answer.status = message.result_int();
  answer.range = header("Content-Range");
  answer.etag = header("ETag");
  answer.modified = header("Last-Modified");
  answer.location = header("Location");
  answer.region = header("x-amz-bucket-region");
  answer.retry_after = header("Retry-After");
  if (const auto length = head.content_length()) answer.length = *length;
  keeps_ = head.keep_alive();
  const bool has_body = request.method != "HEAD" && answer.status != 204 && answer.status != 304;
  if (!has_body) {
    answer.is_whole = held == 0;
    return;
  }
  const bool is_range = answer.status == 206 || answer.status == 200;
  const Bytes wanted = to.left();
  if (is_range && wanted > 0 && answer.length == wanted && !head.chunked())
    return take_into(answer, to, held, limits);
  // A range of a length that is not said before, or another than was asked for; or no range.
  const Bytes most = is_range && wanted > 0 && head.chunked() ? wanted : limits.body_most;
  http::response_parser<http::string_body> body(std::move(head));
  body.body_limit(most);
  body.eager(true);
  if (!take_body(body, held, limits, answer.problem)) return;
  answer.is_whole = true;
  answer.body = std::move(body.get().body());
  if (is_range && answer.body.size() == wanted && wanted > 0) {
    to.put(std::as_bytes(std::span(answer.body)));
    answer.in_memory = wanted;
    answer.body.clear();
  }
}

}  // namespace batchflow::objects
