#include "runtime/client/feed_producer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "runtime/client/c_interface.h"
#include "runtime/client/loader_options.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/feed_hello.h"
#include "runtime/protocol/feed_socket.h"

namespace batchflow::client {
namespace {

using protocol::FeedFrame;
using protocol::take_feed;
using namespace std::chrono_literals;

constexpr std::size_t kUnackedMost = std::size_t{64} << 20;
constexpr std::size_t kSendAtOnce = std::size_t{1} << 20;  // collected before it is sent
constexpr double kTimeout = 60;

// Why no service will ever take records there; empty: one may.
std::string folder_problem(const std::string& feed) {
  struct stat status {};
  const auto is_missing = [&](const std::string& path) {
    return ::stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
  };
  if (protocol::is_remote(feed) || !is_missing(fmt::format("{}/{}", feed, protocol::kFeedSettings)))
    return "";
  return fmt::format(
      "{} is no feed: {}; write the folder of one, or make it with batchflowctl feed create {}, "
      "and serve it with batchflowd --dataset NAME={}",
      feed,
      is_missing(feed) ? std::string("there is no such folder")
                       : fmt::format("it has no {}", protocol::kFeedSettings),
      feed, feed);
}

}  // namespace

bf_status FeedProducer::open(const bf_feed_options& options, std::unique_ptr<FeedProducer>& out) {
  for (const char* text : {options.folder, options.producer}) {
    if (text == nullptr || *text == '\0')
      return fail(BF_BAD_ARGUMENT,
                  "'folder' or 'producer' is missing; write the feed's folder, or "
                  "tcp://HOST:PORT/NAME, and a name that no other producer of it has");
  }
  if (!are_seconds(options.timeout_s))
    return fail(BF_BAD_ARGUMENT, "'timeout_s' must be 0 to 1e8 seconds; write 0 for the default");
  std::unique_ptr<FeedProducer> feed(new FeedProducer);
  feed->folder_ = options.folder;
  feed->name_ = options.producer;
  feed->schema_ = options.schema == nullptr ? "bytes" : options.schema;
  if (const std::string problem =
          protocol::problem_of({feed->name_, feed->schema_, true, 0, false});
      !problem.empty())
    return fail(BF_BAD_ARGUMENT, problem);
  if (const std::string problem = folder_problem(feed->folder_); !problem.empty())
    return fail(BF_BAD_ARGUMENT, problem);
  feed->waits_ = options.cannot_wait == 0;
  feed->timeout_ = duration_of(options.timeout_s, kTimeout);
  if (getrandom(&feed->instance_, sizeof feed->instance_, 0) != sizeof feed->instance_)
    feed->instance_ = 0;
  if (const bf_status status = feed->connect(feed->deadline()); status != BF_OK) return status;
  feed->sequence_ = feed->acked_;
  feed->counts_before_ = feed->counts_now_;
  out = std::move(feed);
  return BF_OK;
}

FeedProducer::Clock::time_point FeedProducer::deadline() const {
  return Clock::now() + timeout_;
}

// ----------------------------------------------------------------------------- connecting ----

bool FeedProducer::connect_once(Clock::time_point deadline, std::string& problem) {
  socket_ = FeedConnection::open(folder_, deadline, problem, refused_);
  if (!socket_) return false;
  in_.clear();
  first_.clear();
  protocol::put_feed_text(FeedFrame::hello,
                          protocol::encode({name_, schema_, waits_, instance_, true}), first_);
  is_greeted_ = false;
  next_ = sent_of_next_ = 0;
  return true;
}

FeedProducer::~FeedProducer() {
  if (!is_of_parent()) lose();
}

// A child of fork() may have the socket, too. It keeps no producer connected.
void FeedProducer::lose() {
  if (socket_) ::shutdown(socket_->socket(), SHUT_RDWR);
  socket_.reset();
  is_greeted_ = false;
}

bf_status FeedProducer::connect(Clock::time_point deadline) {
  std::string problem;
  for (auto pause = 5ms;; pause = std::min(2 * pause, 500ms)) {
    if (!refused_.empty())
      return fail(BF_REFUSED,
                  fmt::format("the feed {} takes nothing from '{}': {}", folder_, name_, refused_));
    std::string why;
    // The last try is cut short by the deadline: what an earlier one was told says more.
    if (!socket_ && !connect_once(deadline, why) && (problem.empty() || Clock::now() < deadline))
      problem = why;
    while (socket_ && !is_greeted_ && Clock::now() < deadline) {
      if (!exchange(50)) problem = "it closed the connection";
    }
    if (socket_ && is_greeted_) return BF_OK;
    if (!refused_.empty()) continue;
    if (socket_ && problem.empty())
      problem = "it answers no new producer; a feed has at most 1,024 at a time";
    if (Clock::now() >= deadline)
      return fail(BF_NO_SERVICE, fmt::format("the feed {} takes no records: {}; is its service up?",
                                             folder_, problem));
    std::this_thread::sleep_for(
        std::min<Clock::duration>(pause, std::max<Clock::duration>(deadline - Clock::now(), 0ms)));
  }
}

// ------------------------------------------------------------------------------- records ----

// Sends what there is room for, and takes answers. False: the connection is lost.
bool FeedProducer::exchange(int wait_ms) {
  exchanged_at_ = Clock::now();
  unsent_ = 0;
  const bool has_more = !first_.empty() || (is_greeted_ && next_ < unacked_.size());
  pollfd polled{socket_->socket(), static_cast<short>(POLLIN | (has_more ? POLLOUT : 0)), 0};
  ::poll(&polled, 1, wait_ms);
  std::string problem;
  if (!unacked_.empty() && socket_->is_silent()) {
    lose();
    return false;
  }
  if ((polled.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !take_answers(problem)) {
    lose();
    return false;
  }
  while (socket_ && (polled.revents & POLLOUT) != 0) {
    const bool is_first = !first_.empty();
    std::array<iovec, 64> parts{};
    std::size_t count = 0;
    const auto add = [&](std::span<std::byte> bytes) {
      parts[count++] = {bytes.data(), bytes.size()};
    };
    if (is_first) {
      add(first_);
    } else if (is_greeted_) {
      for (std::size_t i = next_; i < unacked_.size() && count < parts.size(); ++i)
        add(std::span(unacked_[i].frame).subspan(i == next_ ? sent_of_next_ : 0));
    }
    if (count == 0) return true;
    const std::ptrdiff_t put = socket_->send(std::span(parts).first(count));
    if (put == 0) return true;
    if (put < 0) {
      // The feed may have said why before it closed.
      take_answers(problem);
      lose();
      return false;
    }
    auto left = static_cast<std::size_t>(put);
    if (is_first) {
      first_.erase(first_.begin(), first_.begin() + put);
      continue;
    }
    while (left > 0) {
      const std::size_t of_frame = std::min(left, unacked_[next_].frame.size() - sent_of_next_);
      left -= of_frame;
      sent_of_next_ += of_frame;
      if (sent_of_next_ < unacked_[next_].frame.size()) break;
      ++next_;
      sent_of_next_ = 0;
    }
  }
  return true;
}

bool FeedProducer::take_answers(std::string& problem) {
  constexpr std::size_t kPart = 65'536;
  bool alive = true;
  for (;;) {
    const std::size_t before = in_.size();
    in_.resize(before + kPart);
    const std::ptrdiff_t got = socket_->receive(std::span(in_).subspan(before));
    in_.resize(before + static_cast<std::size_t>(std::max<std::ptrdiff_t>(got, 0)));
    if (got == 0) break;
    if (got < 0) {
      alive = false;
      break;
    }
  }
  std::span<const std::byte> rest(in_);
  while (rest.size() >= protocol::kFeedLength) {
    std::span<const std::byte> at = rest;
    const auto length = take_feed<std::uint32_t>(at);
    if (length == 0 || length > 1 << 16) {
      problem = "it sends what a feed does not send";
      return false;
    }
    if (at.size() < length) break;
    const auto kind = static_cast<FeedFrame>(take_feed<std::uint8_t>(at));
    std::span<const std::byte> body = at.first(length - 1);
    rest = rest.subspan(protocol::kFeedLength + length);
    if (kind == FeedFrame::refused) {
      refused_.assign(reinterpret_cast<const char*>(body.data()), body.size());
      in_.clear();
      return false;
    }
    if (body.size() < 9) continue;
    const auto sequence = take_feed<std::uint64_t>(body);
    if (kind == FeedFrame::welcome && body.size() >= 4) {
      record_most_ = take_feed<std::uint32_t>(body);
      is_greeted_ = true;
      told_to_wait_ = false;  // another service of the feed says so again
      take_counts(body);
    } else if (kind == FeedFrame::ack) {
      const auto flags = take_feed<std::uint8_t>(body);
      told_to_wait_ = (flags & protocol::kFeedWaits) != 0;
      has_ended_ = (flags & protocol::kFeedEnded) != 0;
      take_counts(body);
    } else {
      continue;
    }
    acked_ = std::max(acked_, sequence);
    // All records were acknowledged before the end was sent.
    if (ends_ && has_ended_) {
      unacked_.clear();
      unacked_bytes_ = next_ = sent_of_next_ = 0;
    }
    while (!unacked_.empty() && unacked_.front().sequence <= acked_) {
      unacked_bytes_ -= unacked_.front().frame.size();
      unacked_.pop_front();
      if (next_ > 0) {
        --next_;
      } else {
        sent_of_next_ = 0;
      }
    }
  }
  in_.erase(in_.begin(), in_.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return alive;
}

void FeedProducer::take_counts(std::span<const std::byte> answer) {
  counts_now_.reset();
  if (answer.size() >= protocol::kFeedCounts) counts_now_ = protocol::take_feed_counts(answer);
}

std::optional<protocol::FeedCounts> FeedProducer::counts() const {
  if (!counts_before_ || !counts_now_) return std::nullopt;
  const protocol::FeedCounts& before = *counts_before_;
  const protocol::FeedCounts& now = *counts_now_;
  const bool goes_on = now.service == before.service && now.taken >= before.taken &&
                       now.late >= before.late && now.thinned >= before.thinned &&
                       now.malformed >= before.malformed;
  if (!goes_on) return std::nullopt;
  return protocol::FeedCounts{now.service, now.taken - before.taken, now.late - before.late,
                              now.thinned - before.thinned, now.malformed - before.malformed};
}

template <class Done>
bf_status FeedProducer::until(Clock::time_point deadline, Done done) {
  while (!done()) {
    if (!socket_ || !is_greeted_) {
      if (const bf_status status = connect(deadline); status != BF_OK) return status;
      continue;
    }
    if (Clock::now() >= deadline) {
      return fail(
          BF_TIMEOUT,
          fmt::format(
              "the feed {} has not taken {} in time{}; call again to go on waiting", folder_,
              unacked_.empty() ? "the next record" : fmt::format("{} records", unacked_.size()),
              told_to_wait_ ? ", since its log is nearly full" : ""));
    }
    exchange(50);
  }
  return BF_OK;
}

bf_status FeedProducer::put(const bf_record& record) {
  if (record.bytes == nullptr || record.count == 0)
    return fail(BF_BAD_ARGUMENT, "a record without bytes; give some");
  if (ends_ || has_ended_) return fail(BF_BAD_ARGUMENT, "a record after the end of the feed");
  if (record.count > record_most_)
    return fail(BF_BAD_ARGUMENT,
                fmt::format("a record of {} bytes; the feed {} takes records of at "
                            "most {}",
                            record.count, folder_, record_most_));
  const bf_status status = until(deadline(), [&] {
    return (socket_ || unacked_.empty()) && !told_to_wait_ && unacked_bytes_ < kUnackedMost;
  });
  if (status != BF_OK) return status;
  Sent& sent = unacked_.emplace_back();
  sent.sequence = ++sequence_;
  protocol::FeedRecordHead head;
  head.sequence = sent.sequence;
  head.key = record.key;
  head.time_ns = record.time_ns != 0 ? record.time_ns : protocol::record_time_ns();
  head.label = record.has_label != 0 ? record.label : -1;
  put_feed_record(head, {static_cast<const std::byte*>(record.bytes), record.count}, sent.frame);
  unacked_bytes_ += sent.frame.size();
  unsent_ += sent.frame.size();
  // Small records go many at a time, but none waits long.
  const auto now = Clock::now();
  if (socket_ && (unsent_ >= kSendAtOnce || now - exchanged_at_ >= 1ms)) exchange(0);
  return BF_OK;
}

bf_status FeedProducer::flush(double seconds) {
  if (!are_seconds(seconds)) return fail(BF_BAD_ARGUMENT, "'seconds' must be 0 to 1e8");
  return until(Clock::now() + duration_of(seconds, kTimeout), [&] { return unacked_.empty(); });
}

bf_status FeedProducer::end() {
  if (const bf_status status = ends_ ? BF_OK : flush(0); status != BF_OK) return status;
  if (!std::exchange(ends_, true)) {
    unacked_.emplace_back().sequence = UINT64_MAX;  // no acknowledgement reaches it
    protocol::put_feed_frame(FeedFrame::end, 0, unacked_.back().frame);
  }
  return until(deadline(), [&] { return has_ended_; });
}

void FeedProducer::info(bf_feed_info& info) const {
  info.sequence = sequence_;
  info.acknowledged = acked_;
  info.record_bytes_most = record_most_;
  info.waits = told_to_wait_ ? 1 : 0;
}

}  // namespace batchflow::client
