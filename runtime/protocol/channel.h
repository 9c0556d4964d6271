// Frames with descriptors over a Unix socket: what carries the messages of
// runtime/protocol/messages.h.
//
// A client sends and waits with a deadline; a service that has a loop of its own calls `receive`
// with none whenever the socket is readable, and sends with none. The other side may do anything:
// what cannot be understood ends the channel.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/frame.h"

namespace batchflow {

inline constexpr std::size_t kDescriptorsMost = 8;  // beside one frame

// tcp:// or tls://, where others name a socket of this machine.
inline bool is_remote(std::string_view address) {
  return address.starts_with("tcp://") || address.starts_with("tls://");
}

struct Frame {
  std::string text;
  std::vector<Descriptor> descriptors;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kAtOnce = Clock::time_point::min();

  Channel() = default;
  // A connected stream socket.
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}
  // To the service at `path`. Closed, with the reason in `problem`, when nobody answers.
  static Channel connect(const std::string& path, std::string& problem);

  bool is_open() const { return static_cast<bool>(socket_); }
  // Why it is not.
  const std::string& problem() const { return problem_; }
  const Descriptor& socket() const { return socket_; }
  void close(std::string_view why);

  // All of it, or the channel is closed, and what the other side said before it closed can still be
  // received. Descriptors stay the caller's.
  // REQUIRES: 0 < text.size() <= kFrameMost, descriptors.size() <= kDescriptorsMost
  bool send(std::string_view text, std::span<const int> descriptors, Clock::time_point deadline);
  // The next frame. Empty when none came in time, or the channel is closed.
  std::optional<Frame> receive(Clock::time_point deadline);

 private:
  bool wait_for(short events, Clock::time_point deadline);
  bool receive_some();
  void hear_last(std::string_view why);

  Descriptor socket_;
  FrameCutter cutter_;
  std::vector<Descriptor> descriptors_;  // of the frame being cut
  std::optional<Frame> last_;            // of one that is closed
  std::string problem_ = "not connected";
};

}  // namespace batchflow
