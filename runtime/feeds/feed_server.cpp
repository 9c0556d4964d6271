#include "runtime/feeds/feed_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/feed_hello.h"
#include "runtime/protocol/feed_socket.h"

namespace batchflow::feeds {
namespace {

using protocol::FeedFrame;
using protocol::put_feed;
using protocol::take_feed;

constexpr Bytes kReadAtOnce = 1 << 18;
constexpr Bytes kWrittenAtOnce = 1 << 22;  // taken before it is written
constexpr std::size_t kConnectionsMost = 1024;
constexpr int kTryAgainMs = 200;  // what could not be written
// A connection that has not said hello by then is closed.
constexpr auto kGreetingMost = std::chrono::seconds(10);
constexpr int kLookMs = 1000;  // at those that have not
// What stands of records that have not come as a whole yet, over all connections.
constexpr std::size_t kUnfinishedMost = std::size_t{64} << 20;
constexpr std::size_t kIdleMost = 1 << 16;  // that a connection keeps with nothing in it
// Of answers that a producer has not read. It then hears of later records with the next answer.
constexpr std::size_t kUnreadMost = 1 << 12;
using Clock = std::chrono::steady_clock;

std::string error_text(int error) {
  return std::generic_category().message(error);
}

struct Connection {
  protocol::Descriptor socket;
  std::vector<std::byte> in;
  std::size_t in_at = 0;  // before it, all is taken
  std::vector<std::byte> out;
  bool greeted = false;
  bool waits = false;     // it can wait
  std::uint8_t told = 0;  // flags of the last ack
  bool closing = false;   // when all is sent
  std::string name;
  std::uint64_t instance = 0;
  bool counts = false;  // it asks what becomes of its records
  std::uint64_t producer = 0;
  std::uint64_t taken = 0;  // the last sequence
  std::uint64_t acked = 0;
  Clock::time_point came{};
  Clock::time_point moved{};  // since when its first record that is not whole stands there

  std::span<const std::byte> unread() const { return std::span(in).subspan(in_at); }
};

}  // namespace

std::uint64_t producer_id(std::string_view name) {
  std::uint64_t id = hash(name.size());
  for (const char byte : name) id = hash(id, static_cast<unsigned char>(byte));
  return id;
}

class FeedServer::Parts {
 public:
  Parts(std::shared_ptr<FeedLog> log, Changed changed)
      : log_(std::move(log)), changed_(std::move(changed)) {
    listen();
    wake_ = protocol::Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake_) throw FeedError("no event can be made: " + error_text(errno));
    taker_ = std::thread([this] { take(); });
    syncer_ = std::thread([this] { sync(); });
    pthread_setname_np(taker_.native_handle(), "bf-feed");
    pthread_setname_np(syncer_.native_handle(), "bf-feed-sync");
  }

  ~Parts() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    written_.notify_all();
    wake();
    taker_.join();
    syncer_.join();
    ::unlink(path_.c_str());
  }

  void pace(std::uint64_t needed_from, bool waits, std::uint64_t taken_part,
            std::span<const order::ReservoirName> reservoirs) {
    waits_ = waits;
    taken_part_ = taken_part;
    {
      const std::lock_guard lock(mutex_);  // the syncer looks, or waits to be woken
      log_->drop_before(needed_from, reservoirs);
    }
    wake();
    written_.notify_all();
  }

  FeedState state() const { return log_->state(); }

  FeedStatus status() const {
    const std::lock_guard lock(mutex_);
    return {state(),
            log_->counts(),
            producers_,
            log_->producers(),
            log_->exemplars(),
            waits_,
            problem_.empty() ? unkept_ : problem_};
  }

 private:
  void listen() {
    path_ = log_->folder() + "/" + std::string(protocol::kFeedSocket);
    folder_ =
        protocol::Descriptor(::open(log_->folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const sockaddr_un address = protocol::feed_address(folder_);
    ::unlink(path_.c_str());  // of a service that died: this one has the log's lock
    listener_ =
        protocol::Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener_ ||
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 64) != 0) {
      throw FeedError(fmt::format("{}: {}", path_, error_text(errno)));
    }
    // A user that may write in the folder may send.
    struct stat status {};
    if (::fstat(folder_.get(), &status) == 0) ::chmod(address.sun_path, status.st_mode & 0666);
  }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake_.get(), &one, sizeof one);
  }

  bool ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

  // ------------------------------------------------------------------------- the taker ----

  void take() {
    std::vector<pollfd> polled;
    while (!ends()) {
      const bool stuck = !write();
      const bool full = is_full();
      polled.clear();
      polled.push_back({wake_.get(), POLLIN, 0});
      polled.push_back({listener_.get(), static_cast<short>(can_make_way() ? POLLIN : 0), 0});
      for (const Connection& one : connections_) {
        const bool reads = !one.closing && !stuck && !(one.waits && full);
        polled.push_back(
            {one.socket.get(),
             static_cast<short>((reads ? POLLIN : 0) | (one.out.empty() ? 0 : POLLOUT)), 0});
      }
      const bool looks = std::any_of(connections_.begin(), connections_.end(),
                                     [](const Connection& one) { return !one.greeted; });
      ::poll(polled.data(), polled.size(), stuck ? kTryAgainMs : looks ? kLookMs : -1);
      std::uint64_t count = 0;
      while (::read(wake_.get(), &count, sizeof count) > 0) {
      }
      auto at = polled.begin() + 2;
      std::size_t unfinished = 0;
      for (const Connection& one : connections_) unfinished += one.unread().size();
      for (Connection& one : connections_) {
        const short events = (at++)->revents;
        if ((events & POLLIN) != 0 && one.socket) {
          unfinished -= one.unread().size();
          read(one);
          drop_taken(one);
          unfinished += one.unread().size();
          bound_unfinished(unfinished);
        }
        if ((events & (POLLERR | POLLHUP)) != 0 && (events & POLLIN) == 0) one.socket.reset();
      }
      if ((polled[1].revents & POLLIN) != 0) accept();
      const Clock::time_point now = Clock::now();
      for (Connection& one : connections_)
        if (!one.greeted && now - one.came > kGreetingMost) one.socket.reset();
      for (Connection& one : connections_) {
        send(one);
        if (acknowledge(one)) send(one);
      }
      connections_.remove_if(
          [](const Connection& one) { return !one.socket || (one.closing && one.out.empty()); });
      const std::lock_guard lock(mutex_);
      producers_ = static_cast<std::uint32_t>(
          std::count_if(connections_.begin(), connections_.end(),
                        [](const Connection& one) { return one.greeted; }));
    }
  }

  // The log has no room at all: a producer that can wait is not read from, whatever it was told.
  bool is_full() const { return log_->kept() + log_->waiting() >= log_->settings().keep_bytes; }

  // False: what was taken cannot be written now, so nothing more is taken.
  bool write() {
    if (!log_->has_to_write()) return true;
    const std::string problem = log_->write();
    const std::lock_guard lock(mutex_);
    if (!broken_) problem_ = problem;
    has_written_ = has_written_ || problem.empty();
    if (has_written_) written_.notify_one();
    return problem.empty();
  }

  void accept() {
    for (;;) {
      protocol::Descriptor socket(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      if (connections_.size() >= kConnectionsMost) {
        const auto silent = find_silent();
        if (silent == connections_.end()) return;
        connections_.erase(silent);
      }
      Connection& one = connections_.emplace_back();
      one.socket = std::move(socket);
      one.came = one.moved = Clock::now();
    }
  }

  // The connection that has been silent for longest makes way for one that comes; so connections
  // without a hello never keep producers out.
  std::list<Connection>::iterator find_silent() {
    return std::find_if(connections_.begin(), connections_.end(),
                        [](const Connection& one) { return !one.greeted; });
  }
  bool can_make_way() {
    return connections_.size() < kConnectionsMost || find_silent() != connections_.end();
  }

  // Where unfinished records take too much together, the one that has stood for longest gives way:
  // its producer sends it again.
  void bound_unfinished(std::size_t& all) {
    const std::size_t most =
        std::max(kUnfinishedMost, 2 * static_cast<std::size_t>(log_->settings().record_bytes));
    while (all > most) {
      Connection* oldest = nullptr;
      for (Connection& one : connections_)
        if (!one.unread().empty() && (!oldest || one.moved < oldest->moved)) oldest = &one;
      all -= oldest->unread().size();
      if (oldest->greeted) log_->count_malformed(oldest->producer);
      oldest->in = {};
      oldest->in_at = 0;
      oldest->socket.reset();
    }
  }

  void read(Connection& one) {
    // As much as may be written at once, so that all connections have their turn.
    for (Bytes had = 0; had < kWrittenAtOnce && one.socket && !one.closing;) {
      if (one.waits && is_full()) return;
      const ssize_t got = ::recv(one.socket.get(), scratch_.data(), scratch_.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) {
        // It may have stopped in the middle of a record, which then never was.
        if (!one.unread().empty() && one.greeted) log_->count_malformed(one.producer);
        one.in_at = one.in.size();
        one.socket.reset();
        return;
      }
      had += static_cast<Bytes>(got);
      if (one.unread().empty()) one.moved = Clock::now();
      one.in.insert(one.in.end(), scratch_.begin(), scratch_.begin() + got);
      parse(one);
    }
  }

  void parse(Connection& one) {
    while (!one.closing) {
      std::span<const std::byte> bytes = one.unread();
      if (bytes.size() < protocol::kFeedLength) break;
      const auto length = take_feed<std::uint32_t>(bytes);
      if (length == 0) {
        refuse(one, "a frame of length 0; the length of a frame counts its kind");
        break;
      }
      const std::size_t most =
          one.greeted ? protocol::kFeedRecordHead + 1 + std::size_t{log_->settings().record_bytes}
                      : protocol::kFeedHelloMost;
      // Nothing is set apart for what a length only claims.
      if (length > most) {
        refuse(one, fmt::format("a frame of {} bytes; a record may have {}", length,
                                log_->settings().record_bytes));
        break;
      }
      if (bytes.size() < length) break;
      const auto kind = static_cast<FeedFrame>(take_feed<std::uint8_t>(bytes));
      one.in_at += protocol::kFeedLength + length;
      one.moved = Clock::now();
      frame(one, kind, bytes.first(length - 1));
    }
    // What is left is moved to the front now and then.
    if (one.in_at == one.in.size() || one.in_at > kWrittenAtOnce) drop_taken(one);
  }

  static void drop_taken(Connection& one) {
    one.in.erase(one.in.begin(), one.in.begin() + static_cast<std::ptrdiff_t>(one.in_at));
    one.in_at = 0;
    if (one.in.empty() && one.in.capacity() > kIdleMost) one.in = {};
  }

  void frame(Connection& one, FeedFrame kind, std::span<const std::byte> rest) {
    if (!one.greeted) {
      if (kind != FeedFrame::hello) return refuse(one, "the first frame is no hello");
      return greet(one, {reinterpret_cast<const char*>(rest.data()), rest.size()});
    }
    if (kind == FeedFrame::end) return log_->end();
    if (kind != FeedFrame::record || rest.size() < protocol::kFeedRecordHead)
      return refuse(one, "a frame that a producer does not send");
    const protocol::FeedRecordHead head = protocol::take_feed_record(rest);
    if (head.sequence == 0) return refuse(one, "a record without a sequence");
    log_->take(one.producer, head, rest, one.waits ? std::uint64_t{1} << 32 : taken_part_.load());
    one.taken = std::max(one.taken, head.sequence);
  }

  void greet(Connection& one, std::string_view text) {
    std::string problem;
    const auto hello = protocol::feed_hello_from(text, problem);
    if (!hello) return refuse(one, fmt::format("its hello cannot be read: {}", problem));
    one.name = hello->producer;
    one.waits = hello->waits;
    one.instance = hello->instance;
    one.counts = hello->counts;
    if (hello->schema != log_->settings().schema)
      return refuse(one, fmt::format("it sends records of '{}', and the feed has '{}'",
                                     hello->schema, log_->settings().schema));
    const auto other =
        std::find_if(connections_.begin(), connections_.end(), [&](const Connection& its) {
          return &its != &one && its.greeted && its.socket && its.name == one.name;
        });
    const bool is_known = other != connections_.end();
    // The same process comes again: its last connection is lost. It sends what is not acknowledged
    // once more.
    const bool is_back = is_known && one.instance != 0 && other->instance == one.instance;
    if (is_back) other->socket.reset();
    if (is_known && !is_back)
      return refuse(one, fmt::format("a producer '{}' is connected already; give each a name of "
                                     "its own",
                                     one.name));
    const std::uint64_t producer = producer_id(one.name);
    if (!log_->may_send(producer))
      return refuse(
          one, fmt::format("it knows {} names of producers, and takes no other; send under one "
                           "of these, or make another feed, and let each producer keep its name",
                           log_->producers()));
    one.producer = producer;
    one.greeted = true;
    one.taken = log_->last_sequence(one.producer);
    one.acked = log_->durable_sequence(one.producer);
    protocol::put_feed_frame(FeedFrame::welcome, 12 + counts_bytes(one), one.out);
    put_feed(one.acked, one.out);
    put_feed(static_cast<std::uint32_t>(log_->settings().record_bytes), one.out);
    put_counts(one);
  }

  static std::size_t counts_bytes(const Connection& one) {
    return one.counts ? protocol::kFeedCounts : 0;
  }
  void put_counts(Connection& one) const {
    if (!one.counts) return;
    const LogCounts counts = log_->counts_of(one.producer);
    protocol::put_feed_counts(
        {service_, counts.taken, counts.late, counts.thinned, counts.malformed}, one.out);
  }

  void refuse(Connection& one, const std::string& why) {
    if (one.greeted) log_->count_malformed(one.producer);
    protocol::put_feed_text(FeedFrame::refused, why, one.out);
    one.closing = true;
  }

  // Whether there is something new to send.
  bool acknowledge(Connection& one) {
    if (!one.greeted || !one.socket || one.closing || one.out.size() > kUnreadMost) return false;
    const std::uint64_t durable = log_->durable_sequence(one.producer);
    const auto flags = static_cast<std::uint8_t>((waits_ && one.waits ? protocol::kFeedWaits : 0) |
                                                 (log_->has_ended() ? protocol::kFeedEnded : 0));
    if (durable == one.acked && flags == one.told) return false;
    one.acked = durable;
    one.told = flags;
    protocol::put_feed_frame(FeedFrame::ack, 9 + counts_bytes(one), one.out);
    put_feed(durable, one.out);
    put_feed(flags, one.out);
    put_counts(one);
    return true;
  }

  static void send(Connection& one) {
    while (one.socket && !one.out.empty()) {
      const ssize_t put = ::send(one.socket.get(), one.out.data(), one.out.size(), MSG_NOSIGNAL);
      if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (put <= 0) return one.socket.reset();
      one.out.erase(one.out.begin(), one.out.begin() + put);
    }
  }

  // ------------------------------------------------------------------------ the syncer ----

  void sync() {
    FeedState last = state();
    bool stuck = false;  // exemplars cannot be kept, so files stay that are to go
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        const auto is_due = [this] { return has_written_ || ends_; };
        if (stuck) {
          written_.wait_for(lock, std::chrono::milliseconds(kTryAgainMs), is_due);
        } else {
          written_.wait(lock, [&] { return is_due() || log_->has_to_keep_exemplars(); });
        }
        if (ends_) return;
        has_written_ = false;
      }
      const std::string problem = log_->sync();
      if (!problem.empty()) {
        const std::lock_guard lock(mutex_);
        broken_ = true;
        problem_ = problem;
        return;
      }
      wake();
      const bool keeps = log_->has_to_keep_exemplars();
      const std::string unkept = log_->keep_exemplars();
      stuck = !unkept.empty();
      {
        const std::lock_guard lock(mutex_);
        unkept_ = unkept;
      }
      const FeedState now = state();
      if (now.end != last.end || now.ended != last.ended || (keeps && !stuck)) changed_(now);
      last = now;
    }
  }

  const std::shared_ptr<FeedLog> log_;
  const Changed changed_;
  const std::uint64_t service_ = std::random_device()();  // of FeedCounts
  std::string path_;
  protocol::Descriptor folder_;
  protocol::Descriptor listener_;
  protocol::Descriptor wake_;
  std::list<Connection> connections_;  // by the taker, in the order in which they came
  // A read brings no more than a file may have: that is how far the log may pass its bound.
  std::vector<std::byte> scratch_ =
      std::vector<std::byte>(std::min<Bytes>(kReadAtOnce, log_->settings().segment_bytes));
  std::atomic<bool> waits_ = false;
  std::atomic<std::uint64_t> taken_part_ = std::uint64_t{1} << 32;

  mutable std::mutex mutex_;  // all below
  std::condition_variable written_;
  bool has_written_ = false;
  bool ends_ = false;
  bool broken_ = false;
  std::uint32_t producers_ = 0;
  std::string problem_;
  std::string unkept_;  // why exemplars cannot be kept; empty: they can

  std::thread taker_;
  std::thread syncer_;
};

FeedServer::FeedServer(std::shared_ptr<FeedLog> log, Changed changed)
    : parts_(std::make_unique<Parts>(std::move(log), std::move(changed))) {}
FeedServer::~FeedServer() = default;

void FeedServer::pace(std::uint64_t needed_from, bool waits, std::uint64_t taken_part,
                      std::span<const order::ReservoirName> reservoirs) {
  parts_->pace(needed_from, waits, taken_part, reservoirs);
}
FeedState FeedServer::state() const {
  return parts_->state();
}
FeedStatus FeedServer::status() const {
  return parts_->status();
}

}  // namespace batchflow::feeds
