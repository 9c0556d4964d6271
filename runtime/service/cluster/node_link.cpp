#include "runtime/service/cluster/node_link.h"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

using remote::TcpChannel;

constexpr std::size_t kReadAtLeast = 16384;
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;  // before frames are taken
constexpr std::size_t kKeptMost = std::size_t{1} << 20;    // of memory for a frame that was large

bool is_readable(int socket) {
  pollfd one{socket, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

// The loop waits for a copy of the descriptor, which may live longer than the channel.
NodeLink::NodeLink(boost::asio::io_context& loop, TcpChannel& channel,
                   std::chrono::milliseconds silence, Bytes unsent_most)
    : loop_(loop),
      channel_(channel),
      silence_(silence),
      unsent_most_(unsent_most),
      socket_(loop, dup(channel.socket())) {}

void NodeLink::close() {
  const std::lock_guard lock(mutex_);
  if (!closed_) channel_.shut("the service ends");
  closed_ = true;
}

void NodeLink::shut(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!closed_) channel_.shut(why);
}

// ---------------------------------------------------------------------------------- writing ----

void NodeLink::write(remote::RemoteKind kind, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !channel_.is_open()) return;
  if (unsent_.empty()) moved_ = Clock::now();
  append(kind, bytes);
  if (unsent_.size() - sent_ > unsent_most_)
    return channel_.shut(
        fmt::format("it takes nothing: {} MiB wait for it", (unsent_.size() - sent_) >> 20));
  if (waits_to_write_ || std::exchange(flush_due_, true)) return;
  boost::asio::post(loop_, [self = shared_from_this()] { self->flush(); });
}

void NodeLink::write(std::string_view text) {
  write(remote::RemoteKind::text, std::as_bytes(std::span(text)));
}

void NodeLink::append(remote::RemoteKind kind, std::span<const std::byte> bytes) {
  const auto head = TcpChannel::head_of(kind, bytes.size());
  unsent_.insert(unsent_.end(), head.begin(), head.end());
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
}

void NodeLink::flush() {
  const std::lock_guard lock(mutex_);
  flush_due_ = false;
  write_some();
}

void NodeLink::write_some() {
  short wants = 0;
  while (!closed_ && sent_ < unsent_.size()) {
    const std::ptrdiff_t moved = channel_.write_some(std::span(unsent_).subspan(sent_), wants);
    if (moved <= 0) break;
    sent_ += static_cast<std::size_t>(moved);
    moved_ = Clock::now();
  }
  if (sent_ == unsent_.size() || !channel_.is_open()) {
    unsent_.clear();
    if (unsent_.capacity() > kKeptMost) unsent_ = {};
    sent_ = 0;
  }
  // A side that is always a little behind must not have all that it has had lie here.
  if (sent_ > unsent_.size() / 2) {
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
  if (closed_ || unsent_.empty() || waits_to_write_) return;
  waits_to_write_ = true;
  boost::asio::post(loop_, [self = shared_from_this(), wants] {
    const auto event = wants == POLLIN ? boost::asio::posix::stream_descriptor::wait_read
                                       : boost::asio::posix::stream_descriptor::wait_write;
    self->socket_.async_wait(event, [self](const boost::system::error_code&) {
      const std::lock_guard lock(self->mutex_);
      self->waits_to_write_ = false;
      self->write_some();
    });
  });
}

// ---------------------------------------------------------------------------------- reading ----

void NodeLink::read(Post post, std::function<void(NodeFrame)> take) {
  post_ = std::move(post);
  take_ = std::move(take);
  boost::asio::post(loop_, [self = shared_from_this()] { self->wait_to_read(); });
}

void NodeLink::wait_to_read() {
  const auto go_on = [self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    const auto frames = std::make_shared<std::vector<NodeFrame>>(self->read_some());
    self->post_([self, frames] {
      for (NodeFrame& frame : *frames) self->take_(std::move(frame));
      self->wait_to_read();
    });
  };
  bool has_more = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !channel_.is_open()) return;
    has_more = has_more_;
  }
  if (has_more)
    boost::asio::post(loop_, [go_on] { go_on({}); });
  else
    socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read, go_on);
}

std::vector<NodeFrame> NodeLink::read_some() {
  std::vector<NodeFrame> frames;
  const std::lock_guard lock(mutex_);
  has_more_ = false;
  for (std::size_t all = 0; !closed_;) {
    if (all >= kReadAtOnce) {
      has_more_ = true;
      break;
    }
    if (in_.size() - in_bytes_ < kReadAtLeast) in_.resize(in_bytes_ + kReadAtLeast);
    short wants = 0;
    const std::ptrdiff_t moved = channel_.read_some(std::span(in_).subspan(in_bytes_), wants);
    if (moved <= 0) break;
    all += static_cast<std::size_t>(moved);
    in_bytes_ += static_cast<std::size_t>(moved);
    heard_ = Clock::now();
    take_frames(frames);
  }
  return frames;
}

// Moves the frames that are whole out of what has come.
void NodeLink::take_frames(std::vector<NodeFrame>& out) {
  std::size_t taken = 0;
  while (in_bytes_ - taken >= TcpChannel::kHeadBytes) {
    TcpChannel::Head head;
    const auto rest = std::span<const std::byte>(in_).subspan(taken, in_bytes_ - taken);
    if (!channel_.take_head(rest.first(TcpChannel::kHeadBytes), head)) break;
    if (head.bytes > kFrameMost) {
      channel_.shut(fmt::format("a frame of {} MiB", head.bytes >> 20));
      break;
    }
    const std::size_t whole = TcpChannel::kHeadBytes + head.bytes;
    if (rest.size() < whole) {
      if (in_.size() < taken + whole) in_.resize(taken + whole);
      break;
    }
    if (head.bytes > 0)
      out.push_back({head.kind, {rest.begin() + TcpChannel::kHeadBytes, rest.begin() + whole}});
    taken += whole;
  }
  std::copy(in_.begin() + taken, in_.begin() + in_bytes_, in_.begin());
  in_bytes_ -= taken;
  if (in_bytes_ == 0 && in_.size() > kKeptMost) in_ = {};
}

// ------------------------------------------------------------------------------------- ends ----

void NodeLink::keep() {
  while (channel_.is_open()) {
    pollfd hung{channel_.socket(), 0, 0};
    const bool hung_up = poll(&hung, 1, static_cast<int>(kBeat.count())) > 0;
    // The loop notices it, too, when it has read what came before.
    if (hung_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    beat(hung_up);
  }
}

void NodeLink::beat(bool hung_up) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !channel_.is_open()) return;
  // What waits in the socket was said, if the loop has no time for it.
  if (Clock::now() - heard_ > silence_ && (hung_up || !is_readable(channel_.socket())))
    return channel_.shut("the other side has sent nothing for too long");
  if (!unsent_.empty() && Clock::now() - moved_ > TcpChannel::kPatience)
    return channel_.shut("the other side has taken nothing for too long");
  if (hung_up || !unsent_.empty()) return;
  append(remote::RemoteKind::text, {});
  write_some();
}

}  // namespace batchflow::service
