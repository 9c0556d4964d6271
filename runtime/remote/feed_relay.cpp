#include "runtime/remote/feed_relay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

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

bool is_only_later(ssize_t moved) {
  return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

void relay_feed(TcpChannel& producer, const protocol::Descriptor& feed) {
  // A machine that is gone sends nothing that would end the wait for it, and acknowledges nothing.
  setsockopt(producer.socket(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kGoneAfterMs, sizeof kGoneAfterMs);
  Held records, answers;
  short reads = POLLIN, writes = POLLOUT;
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
      const ssize_t put = ::send(feed.get(), records.rest().data(), records.rest().size(),
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
      moved = moved || put > 0;
      if (put > 0) records.take(static_cast<std::size_t>(put));
      // The feed has closed. What it has said before is still to be passed on.
      if (put <= 0 && !is_only_later(put)) records.clear();
    }
    if (answers.empty()) {
      const ssize_t got =
          ::recv(feed.get(), answers.room().data(), answers.room().size(), MSG_DONTWAIT);
      if (got <= 0 && !is_only_later(got)) return close_after_last(producer);
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
        {feed.get(),
         static_cast<short>((answers.empty() ? POLLIN : 0) | (records.empty() ? 0 : POLLOUT)), 0}};
    // Once the feed has closed, each wait for the producer would end at once.
    if (wanted[1].events == 0) wanted[1].fd = -1;
    poll(wanted, 2, answers.empty() ? -1 : 1000);
    // Records that wait for room in the feed go with their producer, which has them still.
    if (wanted[0].events == 0 && (wanted[0].revents & (POLLERR | POLLHUP)) != 0) return;
  }
}

}  // namespace batchflow::remote
