#include "runtime/remote/feed_relay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/feed_socket.h"
#include "runtime/protocol/messages.h"
#include "runtime/remote/accepting.h"

namespace batchflow::remote {
namespace {

constexpr std::size_t kHeldMost = std::size_t{64} << 10;  // each way
constexpr unsigned kGoneAfterMs = 60'000;

// What one side has sent and the other has not taken yet. It is filled only while it is empty.
class Held {
 public:
  bool empty() const { return at_ == end_; }
  std::span<std::byte> room() { return bytes_; }
  void fill(std::size_t count) {
    at_ = 0;
    end_ = count;
  }
  std::span<const std::byte> rest() const { return std::span(bytes_).subspan(at_, end_ - at_); }
  void take(std::size_t count) { at_ += count; }
  void clear() { at_ = end_; }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kHeldMost);
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

class FeedHere final : public FeedEnd {
 public:
  explicit FeedHere(protocol::Descriptor socket) : socket_(std::move(socket)) {}

  int socket() const override { return socket_.get(); }
  std::ptrdiff_t read_some(std::span<std::byte> bytes, short& wants) override {
    wants = POLLIN;
    return protocol::bytes_moved(::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT));
  }
  std::ptrdiff_t write_some(std::span<const std::byte> bytes, short& wants) override {
    wants = POLLOUT;
    return protocol::bytes_moved(
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

 private:
  const protocol::Descriptor socket_;
};

// A machine that is gone sends nothing that would end the wait for it, and acknowledges nothing.
void end_when_gone(const TcpChannel& channel) {
  setsockopt(channel.socket(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kGoneAfterMs, sizeof kGoneAfterMs);
}

class FeedElsewhere final : public FeedEnd {
 public:
  explicit FeedElsewhere(std::unique_ptr<TcpChannel> channel) : channel_(std::move(channel)) {
    end_when_gone(*channel_);
  }

  int socket() const override { return channel_->socket(); }
  std::ptrdiff_t read_some(std::span<std::byte> bytes, short& wants) override {
    return channel_->read_some(bytes, wants);
  }
  std::ptrdiff_t write_some(std::span<const std::byte> bytes, short& wants) override {
    return channel_->write_some(bytes, wants);
  }

 private:
  const std::unique_ptr<TcpChannel> channel_;
};

}  // namespace

OpenedFeed open_feed_in(const std::string& folder, const std::string& name) {
  OpenedFeed opened;
  opened.why = "not_yet";
  if (folder.empty()) {
    opened.problem = fmt::format(
        "this service has no feed '{}' now; have it served by that name (--dataset NAME=FOLDER)",
        name);
    return opened;
  }
  protocol::Descriptor socket = protocol::connect_to_feed(folder, opened.problem);
  if (socket) opened.end = std::make_unique<FeedHere>(std::move(socket));
  return opened;
}

bool is_feed_open(TcpChannel& channel, TcpChannel::Clock::time_point deadline, std::string& why,
                  std::string& problem) {
  TcpChannel::Head head;
  std::string text;
  if (channel.read_head(head, deadline) && head.kind == RemoteKind::text &&
      head.bytes <= protocol::kFrameMost) {
    text.resize(head.bytes);
    if (!channel.read(std::as_writable_bytes(std::span(text)))) text.clear();
  }
  if (text == kFeedOpen) return true;
  std::string unread;
  if (const auto refused = protocol::decode_refused(text, unread)) {
    why = refused->why;
    problem = refused->message;
  } else {
    why = "not_yet";
    problem =
        channel.is_open() ? "it answers as no service does that takes records" : channel.problem();
  }
  return false;
}

std::unique_ptr<FeedEnd> feed_end(std::unique_ptr<TcpChannel> channel) {
  return std::make_unique<FeedElsewhere>(std::move(channel));
}

void relay_feed(TcpChannel& producer, FeedEnd& feed) {
  end_when_gone(producer);
  Held records, answers;
  short reads = POLLIN, writes = POLLOUT, feed_reads = POLLIN, feed_writes = POLLOUT;
  auto taken_at = TcpChannel::Clock::now();  // the last answer
  for (;;) {
    bool moved = false;
    if (records.empty()) {
      const std::ptrdiff_t got = producer.read_some(records.room(), reads);
      if (got < 0) return;
      records.fill(static_cast<std::size_t>(got));
      moved = got > 0;
    }
    if (!records.empty()) {
      const std::ptrdiff_t put = feed.write_some(records.rest(), feed_writes);
      moved = moved || put > 0;
      if (put > 0) records.take(static_cast<std::size_t>(put));
      // The feed has closed. What it has said before is still to be passed on.
      if (put < 0) records.clear();
    }
    if (answers.empty()) {
      const std::ptrdiff_t got = feed.read_some(answers.room(), feed_reads);
      if (got < 0) return close_after_last(producer);
      if (got > 0) {
        answers.fill(static_cast<std::size_t>(got));
        taken_at = TcpChannel::Clock::now();
      }
    }
    if (!answers.empty()) {
      const std::ptrdiff_t put = producer.write_some(answers.rest(), writes);
      if (put < 0) return;
      answers.take(static_cast<std::size_t>(put));
      moved = moved || put > 0;
      if (put > 0) taken_at = TcpChannel::Clock::now();
      if (TcpChannel::Clock::now() - taken_at > TcpChannel::kPatience)
        return producer.shut("it has taken no answer for too long");
    }
    if (moved) continue;
    pollfd wanted[] = {
        {producer.socket(),
         static_cast<short>((records.empty() ? reads : 0) | (answers.empty() ? 0 : writes)), 0},
        {feed.socket(),
         static_cast<short>((answers.empty() ? feed_reads : 0) |
                            (records.empty() ? 0 : feed_writes)),
         0}};
    // Once the feed has closed, each wait for the producer would end at once.
    if (wanted[1].events == 0) wanted[1].fd = -1;
    poll(wanted, 2, answers.empty() ? -1 : 1000);
    // Records that wait for room in the feed go with their producer, which has them still.
    if (wanted[0].events == 0 && (wanted[0].revents & (POLLERR | POLLHUP)) != 0) return;
  }
}

}  // namespace batchflow::remote
