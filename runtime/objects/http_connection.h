// A connection by HTTP/1.1, in plain or by TLS, that is used by one thread at a time. Nothing of an
// answer is believed without a bound: its head has at most 32 KiB, its body the size that the
// caller allows, and all of it the time that the caller allows.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/objects/parts.h"
#include "runtime/objects/url.h"
#include "runtime/protocol/descriptor.h"

struct ssl_st;
struct ssl_ctx_st;

namespace batchflow::objects {

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";  // path?query, encoded
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

struct HttpAnswer {
  unsigned status = 0;
  std::optional<Bytes> length;                   // of the body, if the head says it
  std::string range;                             // Content-Range
  std::string etag, modified, location, region;  // headers of these names
  std::string retry_after;
  std::string body;       // unless it went to the caller's memory
  Bytes in_memory = 0;    // bytes that went there
  bool is_whole = false;  // all of the body has come
  std::string problem;    // why not
  bool is_late = false;   // because it took too long
};

// How long to wait, and when to stop.
struct HttpLimits {
  std::chrono::steady_clock::time_point until;
  std::chrono::milliseconds idle{10'000};
  Bytes body_most = Bytes{64} << 10;
  const std::atomic<bool>* stop = nullptr;
};

// The certificates that are trusted: those in the file, or the system's.
class TlsContext {
 public:
  explicit TlsContext(std::string authorities) : authorities_(std::move(authorities)) {}
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  // Null, with the reason in `problem`.
  ssl_ctx_st* get(std::string& problem);

 private:
  const std::string authorities_;
  ssl_ctx_st* context_ = nullptr;
};

class HttpConnection {
 public:
  HttpConnection(const Endpoint& endpoint, TlsContext& tls) : endpoint_(endpoint), tls_(tls) {}
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  // Whether another request can be sent on it.
  bool is_open() const { return socket_ && keeps_; }
  // Whether the answer to an earlier request has come by it: then the other end may have closed it
  // meanwhile, and the request is worth another try.
  bool was_used() const { return used_; }

  // Sends the request and takes the answer. The body of an answer with status 206, or 200, goes to
  // `to` if it has exactly that size; any other body goes to HttpAnswer::body, up to body_most.
  HttpAnswer exchange(const HttpRequest& request, const Parts& to, const HttpLimits& limits);
  void close();

 private:
  enum class Wait { readable, writable };
  bool connect(const HttpLimits& limits, std::string& problem);
  void wait_in_calls() const;
  bool begin_tls(const HttpLimits& limits, std::string& problem);
  bool wait(Wait what, const HttpLimits& limits, std::string& problem) const;
  bool send_all(std::string_view bytes, const HttpLimits& limits, std::string& problem);
  // 0: the other end has closed; -1: `problem` says why.
  std::ptrdiff_t receive(std::byte* to, std::size_t bytes, const HttpLimits& limits,
                         std::string& problem);
  void take(HttpAnswer& answer, const HttpRequest& request, Parts to, const HttpLimits& limits);
  // Of an answer: its head; a body of the size that `to` has; any other body. `held` bytes that
  // follow are in the buffer. False: it is not whole, and `problem` says why, or the other end has
  // closed.
  template <class Parser>
  bool take_head(Parser& head, std::size_t& held, const HttpLimits& limits, std::string& problem);
  void take_into(HttpAnswer& answer, Parts to, std::size_t held, const HttpLimits& limits);
  template <class Parser>
  bool take_body(Parser& body, std::size_t held, const HttpLimits& limits, std::string& problem);

  const Endpoint endpoint_;
  TlsContext& tls_;
  protocol::Descriptor socket_;
  ssl_st* ssl_ = nullptr;
  bool keeps_ = true;
  bool used_ = false;
  std::vector<std::byte> buffer_;
};

}  // namespace batchflow::objects
