// Bytes over TCP, by TLS where that is asked for, and the frames they carry. One thread may read
// while others write. The other side may do anything: whatever cannot be right closes the stream.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "runtime/protocol/descriptor.h"

struct ssl_st;
struct ssl_ctx_st;

namespace batchflow {

// tcp://host:port or tls://host:port; IPv6 in brackets.
struct RemoteAddress {
  std::string host;
  std::string port;
  bool tls = false;
};
// False, with the reason in `problem`.
bool parse_remote(std::string_view address, RemoteAddress& out, std::string& problem);

// Certificates: those a side shows, or those it believes.
class TlsContext {
 public:
  TlsContext() = default;
  // A service's own. Throws ConfigError.
  static TlsContext of_service(const std::string& certificate, const std::string& key);
  // Who is believed: the authorities in the file, or the system's where it is empty. Empty, with
  // the reason in `problem`.
  static TlsContext of_client(const std::string& authorities, std::string& problem);
  explicit operator bool() const { return static_cast<bool>(context_); }
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

enum class RemoteKind : std::uint32_t { text = 1, record = 2, payload = 3 };

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // A connected socket.
  explicit Stream(Descriptor socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Null, with the reason in `problem`.
  static std::unique_ptr<Stream> connect(const RemoteAddress& address, const TlsContext* tls,
                                         Clock::time_point deadline, std::string& problem);

  int socket() const { return socket_.get(); }
  // What the other side sends first, left where it is; -1: the stream is closed.
  int first_byte(Clock::time_point deadline);
  // By TLS from here on. Before any frame.
  bool handshake(const TlsContext& tls, bool accepts, const std::string& host,
                 Clock::time_point deadline);

  // Nothing is waited for beyond this, whatever else bounds it: for a side that is not known yet.
  // Not while another thread uses the stream.
  void end_at(Clock::time_point end) { end_ = end; }
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // Both directions end, whoever waits for them. From any thread.
  void shut(std::string_view why);
  bool is_open() const { return open_.load(); }
  std::string problem() const;

  // From any thread. A frame is written whole, or the stream is closed: also when the other
  // side takes nothing for kPatience.
  bool write(RemoteKind kind, std::span<const std::byte> bytes) {
    return write_parts(kind, std::span(&bytes, 1));
  }
  // The same of one in pieces.
  bool write_parts(RemoteKind kind, std::span<const std::span<const std::byte>> parts);
  bool write_text(std::string_view text);

  // Of the reading thread. False: the stream is closed. `head` waits for as long as it takes where
  // the deadline is none; what a frame announces must come without a pause beyond kPatience.
  struct Head {
    RemoteKind kind = RemoteKind::text;
    std::uint64_t bytes = 0;
  };
  bool read_head(Head& head, Clock::time_point deadline);
  // For a thread that waits for more than the stream: `came` is false when no frame has begun. A
  // socket that is readable promises none: TLS has things to say of its own.
  bool look_for_head(Head& head, bool& came);
  // Whether something has been taken from the socket that nobody has read yet.
  bool has_pending() const;
  bool read(std::span<std::byte> bytes);

  static constexpr std::chrono::seconds kPatience{30};

 private:
  // Bytes moved; 0: none now, `wants` says for what to wait; -1: closed.
  std::ptrdiff_t some(bool writes, std::byte* bytes, std::size_t count, short& wants);
  bool all(bool writes, std::byte* bytes, std::size_t count, Clock::time_point first_deadline);
  bool wait(short events, Clock::time_point deadline);
  bool take_head(std::span<const std::byte> bytes, Head& head);

  Descriptor socket_;
  Clock::time_point end_ = kNever;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
  std::mutex tls_mutex_;
  std::mutex write_mutex_;
  std::atomic<bool> open_{true};
  mutable std::mutex problem_mutex_;
  std::string problem_;
};

}  // namespace batchflow
