// Frames with descriptors over a Unix socket. They carry the messages of
// runtime/protocol/messages.h.
//
// A client sends and waits with a deadline. A program with a loop of its own calls `receive` with
// kAtOnce whenever the socket is readable. The other side may do anything: bytes that cannot be
// understood close the channel.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/frame.h"

namespace batchflow::protocol {

inline constexpr std::size_t kDescriptorsMost = 8;  // beside one frame

// Whether an address names another machine (tcp:// or tls://), not a socket of this one.
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
  // REQUIRES: `socket` is a connected stream socket
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}
  // Connects to the service at `path`. A closed channel, with the reason in `problem`, where none
  // answers.
  static Channel connect(const std::string& path, std::string& problem);

  bool is_open() const { return static_cast<bool>(socket_); }
  // Why the channel is closed.
  const std::string& problem() const { return problem_; }
  const Descriptor& socket() const { return socket_; }
  void close(std::string_view why);

  // Sends all of the frame. Where that fails the channel is closed; the last frame that the other
  // side has sent before can still be received. The caller keeps its descriptors.
  // REQUIRES: 0 < text.size() <= kFrameMost, descriptors.size() <= kDescriptorsMost
  bool send(std::string_view text, std::span<const int> descriptors, Clock::time_point deadline);
  // The next frame. None when no frame came in time, or the channel is closed.
  std::optional<Frame> receive(Clock::time_point deadline);

 private:
  bool wait_for(short events, Clock::time_point deadline);
  bool receive_part();
  void close_after_last(std::string_view why);

  Descriptor socket_;
  FrameCutter cutter_;
  std::vector<Descriptor> descriptors_;  // of the frame that is being received
  std::optional<Frame> last_;            // received before a send failed
  std::string problem_ = "not connected";
};

// An object that lives as long as a connection does, such as the thread that carries the connection
// to another machine.
class Companion {
 public:
  virtual ~Companion() = default;
  // Why the other machine is no longer reached; empty: it is reached.
  virtual std::string problem() const = 0;
  // In a child of fork(), which has not got the thread: everything is left to the parent.
  virtual void abandon() = 0;
};

}  // namespace batchflow::protocol
