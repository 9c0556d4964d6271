// A producer's connection to a feed: the socket in the feed's folder, or TCP to the service of
// another machine. No call waits but open().
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace batchflow::client {

class FeedConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // `feed` is a folder, or tcp://HOST:PORT/NAME (tls://). Null, with the reason in `problem`, or in
  // `refused` where another attempt would fare no better.
  static std::unique_ptr<FeedConnection> open(const std::string& feed, Clock::time_point deadline,
                                              std::string& problem, std::string& refused);
  virtual ~FeedConnection() = default;

  virtual int socket() const = 0;
  // How many bytes were moved; 0: none can be now; -1: the connection is lost.
  virtual std::ptrdiff_t send(std::span<const iovec> parts) = 0;
  virtual std::ptrdiff_t receive(std::span<std::byte> bytes) = 0;
  // Whether the other machine must be gone: something was sent to it, and nothing at all has come
  // from it for long.
  virtual bool is_silent() = 0;
};

}  // namespace batchflow::client
