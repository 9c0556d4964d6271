#include "runtime/protocol/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::protocol {
namespace {

// How long poll waits: rounded up, so that it does not return too early again and again.
int milliseconds_until(Channel::Clock::time_point deadline) {
  if (deadline == Channel::kAtOnce) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Channel::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

bool is_over(Channel::Clock::time_point deadline) {
  return deadline == Channel::kAtOnce || Channel::Clock::now() >= deadline;
}

// Room for the control message of kDescriptorsMost descriptors.
union Control {
  cmsghdr alignment;
  std::byte bytes[CMSG_SPACE(kDescriptorsMost * sizeof(int))];
};

void attach(msghdr& message, Control& control, std::span<const int> descriptors) {
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

void take_descriptors(msghdr& message, std::vector<Descriptor>& out) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      out.emplace_back(number);
    }
  }
}

}  // namespace

Channel Channel::connect(const std::string& path, std::string& problem) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    problem = fmt::format("'{}' is not an address: a socket's path has 1 to {} bytes", path,
                          sizeof address.sun_path - 1);
    return {};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (BF_FAILPOINT("protocol.connect")) {
    socket.reset();
    errno = ECONNREFUSED;
  }
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    problem = fmt::format("{}: {}", path, std::strerror(errno));
    return {};
  }
  return Channel(std::move(socket));
}

void Channel::close(std::string_view why) {
  if (!is_open()) return;
  socket_.reset();
  descriptors_.clear();
  problem_ = why;
}

bool Channel::wait_for(short events, Clock::time_point deadline) {
  pollfd wanted{socket_.get(), events, 0};
  return poll(&wanted, 1, milliseconds_until(deadline)) > 0;
}

bool Channel::send(std::string_view text, std::span<const int> descriptors,
                   Clock::time_point deadline) {
  BF_CHECK(descriptors.size() <= kDescriptorsMost);
  auto length = frame_length(text.size());
  std::size_t sent = 0;
  const std::size_t all = kFrameLength + text.size();
  while (is_open() && sent < all) {
    iovec parts[2] = {{length.data(), length.size()},
                      {const_cast<char*>(text.data()), text.size()}};
    iovec* first = parts;
    if (sent < kFrameLength) {
      parts[0] = {length.data() + sent, kFrameLength - sent};
    } else {
      first = &parts[1];
      parts[1] = {const_cast<char*>(text.data()) + (sent - kFrameLength), all - sent};
    }
    std::size_t most = BF_FAILPOINT_SHORT("protocol.send.short", all - sent);
    for (iovec* part = first; part != parts + 2; ++part) {
      part->iov_len = std::min(part->iov_len, most);
      most -= part->iov_len;
    }
    Control control;
    msghdr message{};
    message.msg_iov = first;
    message.msg_iovlen = static_cast<std::size_t>(parts + 2 - first);
    if (sent == 0 && !descriptors.empty()) attach(message, control, descriptors);
    ssize_t now = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (BF_FAILPOINT("protocol.send")) {
      now = -1;
      errno = EPIPE;
    }
    if (now > 0) {
      sent += static_cast<std::size_t>(now);
    } else if (errno == EINTR) {
      continue;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
      close_after_last(std::strerror(errno));
    } else if (!wait_for(POLLOUT, deadline) && is_over(deadline)) {
      close("the other side does not read");
    }
  }
  return is_open();
}

// A service that refuses a connection says why and closes it, before it has read anything. So its
// last frame is received before the channel is closed.
void Channel::close_after_last(std::string_view why) {
  const std::string because(why);
  last_ = receive(kAtOnce);
  close(because);
}

// False: no more bytes are there now.
bool Channel::receive_part() {
  const std::span<std::byte> room = cutter_.room();
  iovec part{room.data(), BF_FAILPOINT_SHORT("protocol.receive.short", room.size())};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (BF_FAILPOINT("protocol.receive")) {
    close(std::strerror(ECONNRESET));
    return false;
  }
  const ssize_t now = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (now < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) close(std::strerror(errno));
    return false;
  }
  take_descriptors(message, descriptors_);
  if ((message.msg_flags & MSG_CTRUNC) != 0 || descriptors_.size() > kDescriptorsMost) {
    close("a message has too many descriptors, or this process has as many open as it may");
  } else if (now == 0) {
    close(cutter_.in_a_frame() ? "closed by the other side within a message"
                               : "closed by the other side");
  } else {
    cutter_.filled(static_cast<std::size_t>(now));
    if (cutter_.broken()) close("a message has a length that no message can have");
  }
  return is_open();
}

std::optional<Frame> Channel::receive(Clock::time_point deadline) {
  if (last_) return std::exchange(last_, std::nullopt);
  while (is_open()) {
    if (receive_part()) {
      if (auto text = cutter_.take())
        return Frame{std::move(*text), std::exchange(descriptors_, {})};
    } else if (is_open() && !wait_for(POLLIN, deadline) && is_over(deadline)) {
      break;
    }
  }
  return std::nullopt;
}

}  // namespace batchflow::protocol
