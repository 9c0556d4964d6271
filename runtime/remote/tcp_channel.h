// Frames over TCP, with TLS where that is asked for. One thread may read while others write. The
// other side may do anything: bytes that cannot be right close the channel.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

struct ssl_st;
struct ssl_ctx_st;

namespace batchflow::remote {

// tcp://host:port or tls://host:port; IPv6 in brackets.
struct RemoteAddress {
  std::string host;
  std::string port;
  bool tls = false;  // encrypted
};
// False, with the reason in `problem`.
bool parse_remote(std::string_view address, RemoteAddress& out, std::string& problem);

// Certificates: the one that a service shows, or those that a client trusts.
class TlsContext {
 public:
  TlsContext() = default;
  // A service's own. Throws ConfigError.
  static TlsContext of_service(const std::string& certificate, const std::string& key);
  // Trusts the authorities in the file, or those of the system where `authorities` is empty.
  // Answers an empty context, with the reason in `problem`, where they cannot be read. `setting`
  // names the file to users.
  static TlsContext of_client(const std::string& authorities, std::string& problem,
                              std::string_view setting = "BATCHFLOW_TLS_CA");
  explicit operator bool() const { return static_cast<bool>(context_); }
  const std::string& setting() const { return setting_; }
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
  std::string setting_;
};

// What a frame holds: a message, a record of a ring, or the bytes of a batch.
enum class RemoteKind : std::uint32_t { text = 1, record = 2, payload = 3 };

class TcpChannel {
 public:
  using Clock = std::chrono::steady_clock;

  // REQUIRES: `socket` is connected
  explicit TcpChannel(protocol::Descriptor socket);
  ~TcpChannel();
  TcpChannel(const TcpChannel&) = delete;
  TcpChannel& operator=(const TcpChannel&) = delete;
  // Null, with the reason in `problem`, and what to do where nothing answers.
  static std::unique_ptr<TcpChannel> connect(
      const RemoteAddress& address, const TlsContext* tls, Clock::time_point deadline,
      std::string& problem,
      std::string_view what_to_do =
          "start batchflowd --tcp there, or name another by 'service' or BATCHFLOW_SERVICE");

  int socket() const { return socket_.get(); }
  // The first byte that the other side sends, which stays to be read; -1: the channel is closed.
  int first_byte(Clock::time_point deadline);
  // Uses TLS from here on. REQUIRES: no frame was read or written
  bool handshake(const TlsContext& tls, bool accepts, const std::string& host,
                 Clock::time_point deadline);

  // No wait is longer than until `end`, whatever its own deadline is. This bounds a side that has
  // shown no token yet. REQUIRES: no other thread uses the channel
  void end_at(Clock::time_point end) { end_ = end; }
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // Ends both directions, and the waits of all threads. Any thread may call it.
  void shut(std::string_view why);
  bool is_open() const { return open_.load(); }
  std::string problem() const;

  // Writes a whole frame, or closes the channel, also when the other side takes no byte for
  // kPatience. Any thread may call it.
  bool write(RemoteKind kind, std::span<const std::byte> bytes) {
    return write_parts(kind, std::span(&bytes, 1));
  }
  // The same for a frame in pieces.
  bool write_parts(RemoteKind kind, std::span<const std::span<const std::byte>> parts);
  bool write_text(std::string_view text);

  // The functions from here on are for the thread that reads. They answer false when the channel is
  // closed. A frame may begin at any time before the deadline; after that its bytes must come
  // without a pause longer than kPatience.
  struct Head {
    RemoteKind kind = RemoteKind::text;
    std::uint64_t bytes = 0;
  };
  bool read_head(Head& head, Clock::time_point deadline);
  // For a thread that also waits for other things: `came` is false when no frame has begun. A
  // readable socket does not mean that one has, since TLS sends messages of its own.
  bool look_for_head(Head& head, bool& came);
  // Whether bytes were taken from the socket that read() and read_head() have not given yet.
  bool has_pending() const;
  bool read(std::span<std::byte> bytes);

  // For a thread that never waits: as many bytes as is possible now, and how many these were. 0:
  // `wants` says for which event of the socket to wait; -1: the channel is closed.
  std::ptrdiff_t read_some(std::span<std::byte> bytes, short& wants) {
    return transfer_some(false, bytes.data(), bytes.size(), wants);
  }
  std::ptrdiff_t write_some(std::span<const std::byte> bytes, short& wants) {
    return transfer_some(true, const_cast<std::byte*>(bytes.data()), bytes.size(), wants);
  }
  // What comes before the bytes of a frame. False: `bytes` are no head, and the channel is closed.
  static constexpr std::size_t kHeadBytes = 16;
  static std::array<std::byte, kHeadBytes> head_of(RemoteKind kind, std::uint64_t bytes);
  bool take_head(std::span<const std::byte> bytes, Head& head);

  static constexpr std::chrono::seconds kPatience{30};

 private:
  std::ptrdiff_t transfer_some(bool writes, std::byte* bytes, std::size_t count, short& wants);
  bool transfer(bool writes, std::byte* bytes, std::size_t count, Clock::time_point first_deadline);
  bool wait(short events, Clock::time_point deadline);

  protocol::Descriptor socket_;
  Clock::time_point end_ = kNever;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
  std::mutex tls_mutex_;
  std::mutex write_mutex_;
  std::atomic<bool> open_{true};  // else `problem_` says why not
  mutable std::mutex problem_mutex_;
  std::string problem_;
};

}  // namespace batchflow::remote
