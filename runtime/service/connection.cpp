#include "runtime/service/connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow::service {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kUnsentMost = std::size_t{16} << 20;
constexpr int kReadsAtOnce = 64;

// Fails when this process has as many descriptors as it may.
int duplicate(const protocol::Descriptor& descriptor) {
  if (BF_FAILPOINT("service.connection.duplicate")) return errno = EMFILE, -1;
  return fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 3);
}

}  // namespace

struct Connection::Wires {
  struct Out {
    std::string bytes;  // length and frame
    std::size_t sent = 0;
    std::vector<protocol::Descriptor> descriptors;
  };
  asio::io_context& loop;
  asio::local::stream_protocol::socket socket;
  asio::posix::stream_descriptor bell;
  protocol::Descriptor bell_descriptor;
  protocol::FrameCutter cutter;
  std::vector<protocol::Descriptor> in_descriptors;  // of the frame being cut
  std::deque<Out> out;
  std::size_t unsent = 0;
  bool writing = false;
  bool ending = false;
  bool doomed = false;  // closed, or soon: what is sent now would be read out of its order
  bool closed = false;
  bool resting = false;
  asio::steady_timer rest;
  std::size_t charged = 0;  // bytes of a frame that is not whole, as the host was told

  explicit Wires(asio::io_context& context)
      : loop(context), socket(context), bell(context), rest(context) {}
};

Connection::Connection(asio::io_context& loop, protocol::Descriptor descriptor,
                       ConnectionHost& host)
    : host_(host), wires_(std::make_unique<Wires>(loop)) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
    user_ = peer.uid;
    process_ = peer.pid;
  }
  boost::system::error_code ignored;  // start() closes a socket that is not open
  wires_->socket.assign(asio::local::stream_protocol(), duplicate(descriptor), ignored);
  if (!ignored) wires_->socket.non_blocking(true, ignored);
}

Connection::~Connection() = default;

void Connection::start() {
  if (!wires_->socket.is_open()) return close();
  wait_to_read();
}

void Connection::wait_to_read() {
  wires_->socket.async_wait(asio::socket_base::wait_read,
                            [self = self()](const boost::system::error_code& error) {
                              if (error || self->wires_->closed) return;
                              self->read();
                            });
}

void Connection::read() {
  // `host_` may end this connection, but not destroy it, because a pointer to it is held. A peer
  // that writes as fast as it is read has its next turn after others.
  for (int most = kReadsAtOnce; most > 0 && !wires_->doomed && !wires_->ending && !wires_->resting;
       --most) {
    const std::span<std::byte> room = wires_->cutter.room();
    iovec part{room.data(), BF_FAILPOINT_SHORT("service.connection.read.short", room.size())};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * protocol::kDescriptorsMost)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got =
        recvmsg(wires_->socket.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0 || BF_FAILPOINT("service.connection.read")) return close();
    if (!take_descriptors(message)) return close();
    wires_->cutter.filled(static_cast<std::size_t>(got));
    if (wires_->cutter.broken()) return close();
    const std::optional<std::string> frame = wires_->cutter.take();
    if (!charge(wires_->cutter.bytes_held())) {
      send(protocol::encode(
               protocol::Refused{"quota", "this user's unfinished messages take too much memory"}),
           {});
      return end();
    }
    if (!frame) continue;
    std::string problem;
    if (!host_.on_frame(*this, *frame, std::exchange(wires_->in_descriptors, {}), problem)) {
      send(protocol::encode(protocol::Refused{"bad_request", problem}), {});
      end();
    }
  }
  if (!wires_->doomed && !wires_->resting) wait_to_read();
}

bool Connection::charge(std::size_t bytes) {
  const std::int64_t change =
      static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(wires_->charged);
  wires_->charged = bytes;
  return change == 0 || host_.on_unfinished(*this, change);
}

void Connection::rest(Duration time) {
  if (time <= Duration(0)) return;
  wires_->resting = true;
  wires_->rest.expires_after(time);
  wires_->rest.async_wait([self = self()](const boost::system::error_code& error) {
    self->wires_->resting = false;
    if (!error && !self->wires_->closed) self->read();
  });
}

bool Connection::take_descriptors(const msghdr& message) {
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one;
       one = CMSG_NXTHDR(const_cast<msghdr*>(&message), one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(one) + i * sizeof number, sizeof number);
      wires_->in_descriptors.emplace_back(number);
    }
  }
  return (message.msg_flags & MSG_CTRUNC) == 0 &&
         wires_->in_descriptors.size() <= protocol::kDescriptorsMost;
}

void Connection::send(std::string frame, std::vector<int> descriptors) {
  if (wires_->doomed) return;
  Wires::Out out;
  const auto length = protocol::frame_length(frame.size());
  out.bytes.assign(reinterpret_cast<const char*>(length.data()), length.size());
  out.bytes += frame;
  for (const int number : descriptors) {
    out.descriptors.emplace_back(fcntl(number, F_DUPFD_CLOEXEC, 3));
    if (BF_FAILPOINT("service.connection.descriptors")) out.descriptors.back().reset();
    // Without the descriptor the peer could not understand the frame: it has to connect anew.
    if (!out.descriptors.back()) return close_soon();
  }
  wires_->unsent += out.bytes.size();
  if (wires_->unsent > kUnsentMost) return end();  // it does not read: it is as good as dead
  wires_->out.push_back(std::move(out));
  if (!wires_->writing) write();
}

void Connection::write() {
  while (!wires_->doomed && !wires_->out.empty()) {
    Wires::Out& out = wires_->out.front();
    iovec part{out.bytes.data() + out.sent,
               BF_FAILPOINT_SHORT("service.connection.send.short", out.bytes.size() - out.sent)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * protocol::kDescriptorsMost)] = {};
    if (out.sent == 0 && !out.descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * out.descriptors.size());
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int) * out.descriptors.size());
      for (std::size_t i = 0; i < out.descriptors.size(); ++i) {
        const int number = out.descriptors[i].get();
        std::memcpy(CMSG_DATA(head) + i * sizeof number, &number, sizeof number);
      }
    }
    ssize_t sent = sendmsg(wires_->socket.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (BF_FAILPOINT("service.connection.send")) {
      sent = -1;
      errno = EPIPE;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      wires_->writing = true;
      wires_->socket.async_wait(asio::socket_base::wait_write,
                                [self = self()](const boost::system::error_code& error) {
                                  self->wires_->writing = false;
                                  if (!error && !self->wires_->closed) self->write();
                                });
      return;
    }
    if (sent < 0) return close_soon();
    out.sent += static_cast<std::size_t>(sent);
    if (out.sent < out.bytes.size()) continue;
    wires_->unsent -= out.bytes.size();
    wires_->out.pop_front();
  }
  if (wires_->ending && wires_->out.empty()) close_soon();
}

// It must not close while a send is running.
void Connection::close_soon() {
  wires_->doomed = true;
  asio::post(wires_->loop, [self = self()] { self->close(); });
}

bool Connection::has_unsent() const {
  return wires_->unsent > 0;
}

void Connection::end() {
  if (std::exchange(wires_->ending, true)) return;
  if (!wires_->writing) write();
}

void Connection::close() {
  if (std::exchange(wires_->closed, true)) return;
  wires_->doomed = true;
  // This comes first. So a peer that sees its socket end can tell whether the service dropped it or
  // died.
  const auto self = this->self();
  charge(0);
  host_.on_end(*this);
  boost::system::error_code ignored;
  wires_->socket.close(ignored);
  wires_->bell.close(ignored);
  wires_->rest.cancel();
}

// -------------------------------------------------------------------------------- doorbell ----

bool Connection::watching() const {
  return wires_->bell.is_open();
}

void Connection::watch(const protocol::Descriptor& doorbell) {
  wires_->bell_descriptor = protocol::Descriptor(duplicate(doorbell));
  boost::system::error_code failed;
  if (wires_->bell_descriptor) wires_->bell.assign(duplicate(doorbell), failed);
  if (!wires_->bell.is_open()) return close_soon();  // the rank would not be heard
  ring_again();
}

void Connection::ring_again() {
  asio::post(wires_->loop, [self = self()] {
    if (self->wires_->closed) return;
    self->host_.on_doorbell(*self);
  });
}

void Connection::wait_for_doorbell() {
  wires_->bell.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = self()](const boost::system::error_code& error) {
                            if (error || self->wires_->closed) return;
                            protocol::silence_doorbell(self->wires_->bell_descriptor);
                            self->host_.on_doorbell(*self);
                          });
}

}  // namespace batchflow::service
