// A feed's socket, with the client's producer and with producers that break its rules.
#include "runtime/feeds/feed_server.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "runtime/client/c_interface.h"
#include "runtime/client/feed_producer.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/feed_hello.h"
#include "runtime/protocol/feed_socket.h"
#include "tests/runtime/feeds/feed_folder.h"

namespace batchflow::test::feed_server_test {

namespace {

using client::FeedProducer;
using feeds::FeedServer;
using protocol::FeedFrame;

struct Served {
  explicit Served(feeds::FeedSettings settings = {}) : folder(settings) { begin(); }
  void begin() {
    log = folder.open();
    server = std::make_unique<FeedServer>(log, [this](const feeds::FeedState&) { ++changes; });
  }
  void end() {
    server.reset();
    log.reset();
  }
  std::string read(std::uint64_t record) const { return record_text(*log, record); }

  std::atomic<std::uint64_t> changes{0};
  FeedFolder folder;
  std::shared_ptr<feeds::FeedLog> log;
  std::unique_ptr<FeedServer> server;
};

bf_feed_options options_of(const Served& served, const char* name) {
  bf_feed_options options{};
  options.folder = served.folder.path().c_str();
  options.producer = name;
  options.timeout_s = 20;
  return options;
}

std::unique_ptr<FeedProducer> producer(const Served& served, const char* name) {
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(FeedProducer::open(options_of(served, name), feed) == BF_OK);
  return feed;
}

bf_status put(FeedProducer& feed, const std::string& text) {
  bf_record record{};
  record.bytes = text.data();
  record.count = text.size();
  return feed.put(record);
}

// A connection that sends whatever it likes.
class Raw {
 public:
  explicit Raw(const Served& served) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (served.folder.path() + "/feed.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void send(std::span<const std::byte> bytes) {
    REQUIRE(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // As the other side reads it.
  void send_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(put > 0);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  void hello(const char* name, const char* schema = "bytes", std::uint64_t instance = 0) {
    std::vector<std::byte> out;
    protocol::put_feed_text(FeedFrame::hello, protocol::encode({name, schema, true, instance}),
                            out);
    send(out);
  }
  // All that comes until the other side closes.
  std::string rest() {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::recv(socket_.get(), part, sizeof part, 0)) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }
  // The next frame, without its length.
  std::string frame() {
    std::uint32_t length = 0;
    if (::recv(socket_.get(), &length, sizeof length, MSG_WAITALL) != sizeof length) return "";
    std::string text(length, '\0');
    REQUIRE(::recv(socket_.get(), text.data(), length, MSG_WAITALL) ==
            static_cast<ssize_t>(length));
    return text;
  }
  void close() { socket_.reset(); }

 private:
  protocol::Descriptor socket_;
};

}  // namespace

TEST_CASE("what a producer has flushed is there, in its order") {
  Served served;
  const auto feed = producer(served, "one");
  for (int n = 0; n < 5000; ++n) REQUIRE(put(*feed, "record " + std::to_string(n)) == BF_OK);
  REQUIRE(feed->flush(0) == BF_OK);
  CHECK(served.log->end_record() == 5000);
  for (const std::uint64_t n : {0, 1, 2500, 4999})
    CHECK(served.read(n) == "record " + std::to_string(n));
  CHECK(served.changes > 0);
  bf_feed_info info{};
  feed->info(info);
  CHECK(info.acknowledged == 5000);
}

TEST_CASE("a record comes without a flush, however few follow") {
  Served served;
  const auto feed = producer(served, "one");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(put(*feed, "alone") == BF_OK);
  CHECK(comes([&] { return served.log->end_record() == 1; }));
}

TEST_CASE("producers of other names send at once, and each has its own order") {
  Served served;
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&, p] {
      std::unique_ptr<FeedProducer> feed;
      const std::string name = "producer " + std::to_string(p);
      if (FeedProducer::open(options_of(served, name.c_str()), feed) != BF_OK) return;
      for (int n = 0; n < 500; ++n) put(*feed, std::to_string(p) + " " + std::to_string(n));
      feed->flush(0);
    });
  }
  for (std::thread& one : threads) one.join();
  REQUIRE(served.log->end_record() == 1500);
  std::vector<int> next(3);
  for (std::uint64_t record = 0; record < 1500; ++record) {
    const std::string text = served.read(record);
    const int p = text[0] - '0';
    CHECK(text == std::to_string(p) + " " + std::to_string(next[static_cast<std::size_t>(p)]++));
  }
}

TEST_CASE("a service that comes back is sent what it has not acknowledged, and no more") {
  Served served;
  const auto feed = producer(served, "one");
  for (int n = 0; n < 1000; ++n) {
    if (n % 250 == 100) {
      served.end();
      served.begin();
    }
    REQUIRE(put(*feed, std::to_string(n)) == BF_OK);
  }
  REQUIRE(feed->flush(0) == BF_OK);
  REQUIRE(served.log->end_record() == 1000);
  for (std::uint64_t n = 0; n < 1000; ++n) CHECK(served.read(n) == std::to_string(n));
}

TEST_CASE("a producer that comes back goes on behind its last record") {
  Served served;
  {
    const auto feed = producer(served, "one");
    for (int n = 0; n < 10; ++n) put(*feed, std::to_string(n));
    REQUIRE(feed->flush(0) == BF_OK);
  }
  std::unique_ptr<FeedProducer> feed;
  // The service may not have seen yet that it went.
  REQUIRE(comes([&] { return FeedProducer::open(options_of(served, "one"), feed) == BF_OK; }));
  bf_feed_info info{};
  feed->info(info);
  CHECK(info.sequence == 10);
  put(*feed, "10");
  REQUIRE(feed->flush(0) == BF_OK);
  CHECK(served.read(10) == "10");
}

TEST_CASE("two producers of one name: the second is refused, and the first goes on") {
  Served served;
  const auto feed = producer(served, "one");
  std::unique_ptr<FeedProducer> second;
  CHECK(FeedProducer::open(options_of(served, "one"), second) == BF_REFUSED);
  CHECK(std::string(client::last_error()).find("connected already") != std::string::npos);
  put(*feed, "x");
  CHECK(feed->flush(0) == BF_OK);
}

// Of a connection over a network, one side may know for minutes only that it is lost.
TEST_CASE("a feed that knows as many producers as it may refuses a new name, and no other") {
  feeds::FeedSettings settings;
  settings.keep_bytes = 1 << 26;
  Served served(settings);
  served.end();
  {
    const auto log = served.folder.open();
    for (std::uint64_t id = 1; id < feeds::kProducersMost; ++id) {
      protocol::FeedRecordHead head;
      head.sequence = 1;
      log->take(id, head, std::as_bytes(std::span("x", 1)), std::uint64_t{1} << 32);
    }
    REQUIRE(log->write() == "");
    REQUIRE(log->sync() == "");
  }
  served.begin();
  const auto last = producer(served, "last");
  REQUIRE(put(*last, "one") == BF_OK);
  REQUIRE(last->flush(20) == BF_OK);
  std::unique_ptr<FeedProducer> another;
  CHECK(FeedProducer::open(options_of(served, "one more"), another) == BF_REFUSED);
  const std::string said = client::last_error();
  CHECK_MESSAGE(
      said.find("it knows 65536 names of producers, and takes no other; send under one of "
                "these, or make another feed") != said.npos,
      said);
  REQUIRE(put(*last, "two") == BF_OK);
  REQUIRE(last->flush(20) == BF_OK);
  CHECK(served.log->end_record() == feeds::kProducersMost + 1);
  CHECK(served.server->status().known == feeds::kProducersMost);
}

TEST_CASE("the new connection of a process takes the place of its old one") {
  Served served;
  Raw lost(served);
  lost.hello("one", "bytes", 7);
  CHECK(lost.frame().size() == 13);  // welcome
  Raw other(served);
  other.hello("one", "bytes", 8);
  CHECK(other.rest().find("connected already") != std::string::npos);
  Raw again(served);
  again.hello("one", "bytes", 7);
  CHECK(again.frame().size() == 13);
  CHECK(lost.rest().empty());
  std::vector<std::byte> out;
  const std::string text = "x";
  protocol::put_feed_record({1, 0, 0, -1}, std::as_bytes(std::span(text)), out);
  again.send(out);
  CHECK(comes([&] { return served.log->end_record() == 1; }));
  CHECK(served.log->counts().malformed == 0);
}

TEST_CASE("another schema is refused, with both") {
  Served served;
  bf_feed_options options = options_of(served, "one");
  options.schema = "f32[4]";
  std::unique_ptr<FeedProducer> feed;
  CHECK(FeedProducer::open(options, feed) == BF_REFUSED);
  const std::string why = client::last_error();
  CHECK(why.find("'f32[4]'") != std::string::npos);
  CHECK(why.find("'bytes'") != std::string::npos);
}

TEST_CASE("a frame of two gigabytes is refused before anything is set apart for it") {
  Served served;
  Raw raw(served);
  raw.hello("one");
  std::vector<std::byte> out;
  protocol::put_feed(std::uint32_t{0x8000'0000}, out);
  protocol::put_feed(static_cast<std::uint8_t>(FeedFrame::record), out);
  raw.send(out);
  CHECK(raw.rest().find("a frame of 2147483648 bytes") != std::string::npos);
  CHECK(served.log->counts().malformed == 1);
  // The feed goes on.
  const auto feed = producer(served, "two");
  put(*feed, "x");
  CHECK(feed->flush(0) == BF_OK);
}

TEST_CASE("a connection that ends in the middle of a record has sent none, and is counted") {
  Served served;
  Raw raw(served);
  raw.hello("one");
  std::vector<std::byte> out;
  const std::string text = "half a record";
  protocol::put_feed_record({1, 0, 0, -1}, std::as_bytes(std::span(text)), out);
  raw.send(std::span(out).first(out.size() - 3));
  raw.close();
  CHECK(comes([&] { return served.log->counts().malformed == 1; }));
  CHECK(served.log->end_record() == 0);
}

TEST_CASE("connections without a hello keep no producer out") {
  rlimit files{};  // both ends of each connection are of this process
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit before = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  const Served served;
  std::vector<std::unique_ptr<Raw>> silent;
  for (int i = 0; i < 1100; ++i) silent.push_back(std::make_unique<Raw>(served));
  auto feed = producer(served, "late");
  REQUIRE(put(*feed, "here") == BF_OK);
  REQUIRE(feed->flush(20) == BF_OK);
  CHECK(served.read(0) == "here");
  silent.clear();
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("unfinished records take no more together than is bounded, and others go on") {
  feeds::FeedSettings settings;
  settings.record_bytes = 1 << 20;
  settings.keep_bytes = 1 << 25;
  const Served served(settings);
  constexpr std::size_t kPart = (1 << 20) - 4096;
  std::vector<std::byte> part;
  protocol::put_feed_frame(FeedFrame::record, protocol::kFeedRecordHead + (1 << 20), part);
  part.resize(kPart);
  std::vector<std::unique_ptr<Raw>> unfinished;
  for (int i = 0; i < 80; ++i) {
    unfinished.push_back(std::make_unique<Raw>(served));
    unfinished.back()->hello(("slow-" + std::to_string(i)).c_str());
    unfinished.back()->frame();
    unfinished.back()->send_all(part);
  }
  // The first of them have given way, each of which counts as malformed.
  CHECK(comes([&] { return served.log->counts().malformed >= 80 - 66; }));
  auto feed = producer(served, "quick");
  REQUIRE(put(*feed, "here") == BF_OK);
  REQUIRE(feed->flush(20) == BF_OK);
  CHECK(served.read(0) == "here");
  CHECK(served.log->counts().malformed <= 80 - 60);
}

// Up to 4 MiB of them stand before the unfinished one.
TEST_CASE("records that are taken count as none that are unfinished") {
  const Served served;
  const std::string text(1000, 'x');
  std::vector<std::byte> first, again, last;
  protocol::put_feed_record({2, 0, 0, -1}, std::as_bytes(std::span(text)), first);
  while (again.size() < (std::size_t{31} << 17))
    protocol::put_feed_record({1, 0, 0, -1}, std::as_bytes(std::span(text)), again);
  protocol::put_feed_record({3, 0, 0, -1}, std::as_bytes(std::span(text)), last);
  std::vector<std::unique_ptr<Raw>> producers;
  for (int i = 0; i < 24; ++i) {
    producers.push_back(std::make_unique<Raw>(served));
    Raw& one = *producers.back();
    one.hello(("quick-" + std::to_string(i)).c_str());
    one.frame();
    one.send_all(first);
    one.send_all(again);
    one.send_all(std::span(last).first(500));
  }
  for (const auto& one : producers) one->send_all(std::span(last).subspan(500));
  CHECK(comes([&] { return served.log->end_record() == 2 * producers.size(); }));
  CHECK(served.log->counts().malformed == 0);
}

TEST_CASE("answers to a producer that reads none take no memory without end") {
  constexpr std::uint64_t kRecords = 1500;
  const Served served;
  Raw raw(served);
  raw.hello("one");
  CHECK(raw.frame().size() == 13);  // welcome
  const std::string text = "x";
  for (std::uint64_t n = 1; n <= kRecords; ++n) {
    std::vector<std::byte> out;
    protocol::put_feed_record({n, 0, 0, -1}, std::as_bytes(std::span(text)), out);
    raw.send(out);
    while (served.log->end_record() < n) std::this_thread::yield();
  }
  // The socket itself has room for some hundreds. Those that follow say as much in few.
  std::uint64_t answers = 0, acknowledged = 0;
  for (; acknowledged < kRecords; ++answers) {
    const std::string ack = raw.frame();
    REQUIRE(ack.size() == 10);
    std::span<const std::byte> rest = std::as_bytes(std::span(ack)).subspan(1);
    acknowledged = protocol::take_feed<std::uint64_t>(rest);
  }
  CHECK(answers < kRecords * 2 / 3);
}

TEST_CASE("nonsense is refused") {
  Served served;
  SUBCASE("before a hello") {
    Raw raw(served);
    std::vector<std::byte> out;
    protocol::put_feed_frame(FeedFrame::end, 0, out);
    raw.send(out);
    CHECK(raw.rest().find("no hello") != std::string::npos);
  }
  SUBCASE("a hello that is none") {
    Raw raw(served);
    std::vector<std::byte> out;
    protocol::put_feed_text(FeedFrame::hello, "{\"producer\": 7}", out);
    raw.send(out);
    CHECK(raw.rest().find("cannot be read") != std::string::npos);
  }
  SUBCASE("texts that are too long, of which none comes back as a whole") {
    const std::string most(protocol::kFeedTextMost, 'n');
    for (const std::string& text : {protocol::encode({most + "n", "bytes", true, 0}),
                                    protocol::encode({"one", most + "s", true, 0}),
                                    "{\"producer\": " + std::string(60'000, 'x')}) {
      Raw raw(served);
      std::vector<std::byte> out;
      protocol::put_feed_text(FeedFrame::hello, text, out);
      raw.send_all(out);
      const std::string answer = raw.rest();
      CHECK(answer.find("cannot be read") != std::string::npos);
      CHECK(answer.size() < 400);
    }
    Raw raw(served);
    raw.hello(most.c_str());
    CHECK(raw.frame().size() == 13);  // welcome
  }
  SUBCASE("a frame that a feed sends") {
    Raw raw(served);
    raw.hello("one");
    std::vector<std::byte> out;
    protocol::put_feed_frame(FeedFrame::ack, 0, out);
    raw.send(out);
    CHECK(raw.rest().find("does not send") != std::string::npos);
  }
  SUBCASE("a record without a sequence") {
    Raw raw(served);
    raw.hello("one");
    std::vector<std::byte> out;
    protocol::put_feed_record({}, {}, out);
    raw.send(out);
    CHECK(raw.rest().find("without a sequence") != std::string::npos);
  }
  SUBCASE("a frame of length 0, alone") {
    Raw raw(served);
    raw.hello("one");
    std::vector<std::byte> out;
    protocol::put_feed(std::uint32_t{0}, out);
    raw.send(out);
    CHECK(raw.rest().find("a frame of length 0") != std::string::npos);
    CHECK(served.log->counts().malformed == 1);
  }
  SUBCASE("a frame of length 0 before a hello") {
    Raw raw(served);
    std::vector<std::byte> out;
    protocol::put_feed(std::uint32_t{0}, out);
    raw.send(out);
    CHECK(raw.rest().find("a frame of length 0") != std::string::npos);
    CHECK(served.log->counts().malformed == 0);  // it is of no producer
  }
  CHECK(served.log->end_record() == 0);
}

TEST_CASE("producers are told to wait, and to go on") {
  Served served;
  const auto feed = producer(served, "one");
  served.server->pace(0, true, std::uint64_t{1} << 32);
  bf_feed_info info{};
  REQUIRE(comes([&] {
    feed->flush(0.05);
    feed->info(info);
    if (info.waits == 0) put(*feed, "x");  // one that waits would only return after its timeout
    return info.waits != 0;
  }));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    served.server->pace(0, false, std::uint64_t{1} << 32);
  });
  // It returns when the feed has said that it may go on.
  CHECK(put(*feed, "y") == BF_OK);
  later.join();
  feed->info(info);
  CHECK(info.waits == 0);
}

// The engine's part (core/engine/growing_sources.cpp) is played here, as late as it may be.
TEST_CASE("a burst that is larger than the log comes as a whole, while what was had goes") {
  feeds::FeedSettings settings = small_files();
  settings.keep_bytes = 1 << 18;
  const Served served(settings);
  constexpr std::uint64_t kRecords = 1000;  // 3 MB
  const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(3000, 'y'); };
  const auto feed = producer(served, "one");
  bf_status sent = BF_OK;
  std::thread sender([&] {
    for (std::uint64_t n = 0; n < kRecords && sent == BF_OK; ++n) sent = put(*feed, text(n));
    if (sent == BF_OK) sent = feed->end();
  });
  std::uint64_t had = 0;
  const bool all = comes([&] {
    const feeds::FeedState state = served.server->state();
    // It passes its bound by no more than what one read and one record bring.
    CHECK(state.kept <= settings.keep_bytes + 2 * settings.segment_bytes);
    for (; had < state.end; ++had) REQUIRE(served.read(had) == text(had));
    const Bytes most = settings.keep_bytes;
    served.server->pace(had, state.kept > most / 2 + most / 8, std::uint64_t{1} << 32);
    return served.server->state().ended && had == kRecords;
  });
  sender.join();
  CHECK(sent == BF_OK);
  CHECK(all);
}

TEST_CASE("a log that cannot begin files now and then acknowledges each record once") {
  constexpr std::uint64_t kRecords = 300;
  const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(3000, 'y'); };
  feeds::FeedSettings settings = small_files();
  settings.keep_bytes = 1 << 22;
  Served served(settings);
  failpoint::configure_failpoints("feed.roll=fail:0.5");
  {
    const auto feed = producer(served, "one");
    for (std::uint64_t n = 0; n < kRecords; ++n) {
      if (n % 100 == 50) {
        served.end();
        served.begin();
      }
      REQUIRE(put(*feed, text(n)) == BF_OK);
    }
    REQUIRE(feed->flush(20) == BF_OK);
  }
  std::uint64_t acted = 0;
  for (const auto& one : failpoint::failpoint_counts())
    if (one.name == "feed.roll") acted += one.acted;
  CHECK(acted > 0);
  failpoint::configure_failpoints("");
  served.end();
  served.begin();
  REQUIRE(served.log->end_record() == kRecords);
  for (std::uint64_t n = 0; n < kRecords; ++n) REQUIRE(served.read(n) == text(n));
  CHECK(served.log->counts().taken == kRecords);
}

TEST_CASE("records of a producer that cannot wait are thinned, and each is counted") {
  Served served;
  bf_feed_options options = options_of(served, "one");
  options.cannot_wait = 1;
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(FeedProducer::open(options, feed) == BF_OK);
  served.server->pace(0, true, std::uint64_t{1} << 31);
  for (int n = 0; n < 1000; ++n) REQUIRE(put(*feed, std::to_string(n)) == BF_OK);
  REQUIRE(feed->flush(0) == BF_OK);
  const feeds::LogCounts counts = served.log->counts();
  CHECK(counts.taken + counts.thinned == 1000);
  CHECK(counts.taken == served.log->end_record());
  CHECK(counts.thinned > 400);
  CHECK(counts.taken > 400);
}

TEST_CASE("the end of a feed is durable when its producer hears of it") {
  Served served;
  const auto feed = producer(served, "one");
  put(*feed, "last");
  REQUIRE(feed->end() == BF_OK);
  CHECK(served.log->has_ended());
  CHECK(put(*feed, "more") == BF_BAD_ARGUMENT);
  CHECK(feed->flush(0) == BF_OK);
  CHECK(feed->end() == BF_OK);
}

TEST_CASE("a producer knows what became of its records, until another service has the feed") {
  feeds::FeedSettings settings;
  settings.labelled = true;
  Served served(settings);
  const auto send = [](FeedProducer& feed, int label) {
    bf_record record{};
    record.bytes = "x";
    record.count = 1;
    record.has_label = label >= 0 ? 1 : 0;
    record.label = label;
    REQUIRE(feed.put(record) == BF_OK);
    REQUIRE(feed.flush(0) == BF_OK);
  };
  const auto one = producer(served, "one");
  CHECK(one->counts()->taken == 0);
  for (const int label : {3, -1, 4, -1, -1}) send(*one, label);
  CHECK(one->counts()->taken == 2);
  CHECK(one->counts()->malformed == 3);
  CHECK(one->counts()->late + one->counts()->thinned == 0);
  const auto two = producer(served, "two");
  send(*two, -1);
  CHECK(two->counts()->taken == 0);
  CHECK(two->counts()->malformed == 1);
  served.end();
  served.begin();
  send(*one, 5);
  CHECK(!one->counts());
}

TEST_CASE("a producer that asks for no counts is sent none") {
  Served served;
  for (const bool counts : {false, true}) {
    Raw raw(served);
    std::vector<std::byte> out;
    protocol::put_feed_text(FeedFrame::hello, protocol::encode({"one", "bytes", true, 7, counts}),
                            out);
    const std::string text = "x";
    protocol::put_feed_record({counts ? 2u : 1u, 0, 0, -1}, std::as_bytes(std::span(text)), out);
    raw.send(out);
    CHECK(raw.frame().size() == 13 + (counts ? protocol::kFeedCounts : 0));  // welcome
    CHECK(raw.frame().size() == 10 + (counts ? protocol::kFeedCounts : 0));  // ack
  }
}

TEST_CASE("a record that is too large is refused where it is put") {
  feeds::FeedSettings settings;
  settings.record_bytes = 100;
  Served served(settings);
  const auto feed = producer(served, "one");
  CHECK(put(*feed, std::string(101, 'x')) == BF_BAD_ARGUMENT);
  CHECK(put(*feed, std::string(100, 'x')) == BF_OK);
  CHECK(feed->flush(0) == BF_OK);
}

TEST_CASE("a producer's name that is too long is refused where the feed is opened") {
  const Served served;
  const std::string name(100'000, 'n');
  std::unique_ptr<FeedProducer> feed;
  CHECK(FeedProducer::open(options_of(served, name.c_str()), feed) == BF_BAD_ARGUMENT);
  CHECK(std::string(client::last_error()) == "a producer's name of 100000 bytes; it may have 512");
}

TEST_CASE("a feed that answers no new producer says so, within its time") {
  const FeedFolder folder;
  const protocol::Descriptor opened(::open(folder.path().c_str(), O_PATH | O_DIRECTORY));
  const sockaddr_un address = protocol::feed_address(opened);
  const protocol::Descriptor full(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(full.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(full.get(), 1) == 0);
  bf_feed_options options{};
  options.folder = folder.path().c_str();
  options.producer = "one more";
  options.timeout_s = 0.2;
  std::unique_ptr<FeedProducer> feed;
  CHECK(FeedProducer::open(options, feed) == BF_NO_SERVICE);
  CHECK(std::string(client::last_error()).find("at most 1,024") != std::string::npos);
}

// Its timeout is longer than any test has.
TEST_CASE("a folder that is no feed is refused at once, with what to do") {
  const TemporaryFolder folder;
  const std::string none = (folder.path() / "none").string();
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << "x";
  for (const auto& [path, why] : {std::pair{none, "there is no such folder"},
                                  {folder.path().string(), "it has no feed.json"},
                                  {file, "it has no feed.json"}}) {
    bf_feed_options options{};
    options.folder = path.c_str();
    options.producer = "one";
    options.timeout_s = 1e7;
    std::unique_ptr<FeedProducer> feed;
    CHECK(FeedProducer::open(options, feed) == BF_BAD_ARGUMENT);
    CHECK(
        client::last_error() ==
        fmt::format("{} is no feed: {}; write the folder of one, or make it with batchflowctl feed "
                    "create {}, and serve it with batchflowd --dataset NAME={}",
                    path, why, path, path));
  }
}

TEST_CASE("a feed without a service says so, within its time") {
  const FeedFolder folder;
  bf_feed_options options{};
  options.folder = folder.path().c_str();
  options.producer = "one";
  options.timeout_s = 0.05;
  std::unique_ptr<FeedProducer> feed;
  CHECK(FeedProducer::open(options, feed) == BF_NO_SERVICE);
}

}  // namespace batchflow::test::feed_server_test
