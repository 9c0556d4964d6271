// Records over TCP and TLS: what is acknowledged is in the log once, whatever becomes of
// connections; and those that may not send are told why.
#include "runtime/remote/feed_relay.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "fmt/format.h"
#include "runtime/client/c_interface.h"
#include "runtime/client/feed_producer.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_server.h"
#include "runtime/protocol/feed_hello.h"
#include "runtime/remote/listener.h"
#include "tests/runtime/feeds/feed_folder.h"
#include "tests/runtime/service/certificate.h"
#include "tests/skip.h"

namespace batchflow::test::feed_relay_test {
namespace {

using client::FeedProducer;
using protocol::FeedFrame;
using namespace std::chrono_literals;

const std::string kToken(64, 't');

// A feed `clicks`, which producers reach over TCP.
struct Served {
  FeedFolder folder;
  std::shared_ptr<feeds::FeedLog> log;
  std::unique_ptr<feeds::FeedServer> server;
  std::unique_ptr<remote::RemoteListener> listener;
  remote::RemoteOptions options;

  explicit Served(bool by_tls = false) {
    options.port = 0;
    options.token_file = token("tokens", kToken);
    options.feeds = true;
    unsetenv("BATCHFLOW_TLS_CA");
    if (by_tls) {
      options.certificate = folder.path() + "/cert.pem";
      options.key = folder.path() + "/key.pem";
      setenv("BATCHFLOW_TLS_CA", options.certificate.c_str(), 1);
    }
    setenv("BATCHFLOW_TOKEN_FILE", token("mine", kToken).c_str(), 1);
  }
  std::string token(const char* name, const std::string& text) const {
    const std::string file = folder.path() + "/" + name;
    std::ofstream(file) << text << "\n";
    chmod(file.c_str(), 0600);
    return file;
  }
  void begin() {
    log = folder.open();
    server = std::make_unique<feeds::FeedServer>(log, [](const feeds::FeedState&) {});
    listen();
  }
  void listen() {
    listener = std::make_unique<remote::RemoteListener>(
        options, "", remote::RemoteListener::ServeNode(), [this](const std::string& name) {
          return remote::open_feed_in(name == "clicks" ? folder.path() : "", name);
        });
    options.port = listener->port();
  }
  void end() {
    listener.reset();
    server.reset();
    log.reset();
  }
  std::string address(const char* name = "clicks") const {
    return fmt::format("{}://127.0.0.1:{}/{}", options.certificate.empty() ? "tcp" : "tls",
                       options.port, name);
  }
  std::string read(std::uint64_t record) const { return record_text(*log, record); }
  // That the log has the texts of these numbers, once each and in their order.
  void check_has(std::uint64_t records) const {
    REQUIRE(log->end_record() == records);
    for (std::uint64_t n = 0; n < records; ++n) REQUIRE(read(n) == fmt::format("record {}", n));
  }
};

bf_status open(const std::string& address, std::unique_ptr<FeedProducer>& feed,
               double timeout_s = 20, const char* name = "one") {
  bf_feed_options options{};
  options.folder = address.c_str();
  options.producer = name;
  options.timeout_s = timeout_s;
  return FeedProducer::open(options, feed);
}

bf_status put(FeedProducer& feed, std::uint64_t n) {
  const std::string text = fmt::format("record {}", n);
  bf_record record{};
  record.bytes = text.data();
  record.count = text.size();
  return feed.put(record);
}

// A connection that has shown its token, and sends whatever it likes.
class Raw {
 public:
  explicit Raw(const Served& served) {
    remote::RemoteAddress to;
    std::string problem;
    REQUIRE(
        remote::parse_remote(fmt::format("tcp://127.0.0.1:{}", served.options.port), to, problem));
    const auto soon = remote::TcpChannel::Clock::now() + 20s;
    channel_ = remote::TcpChannel::connect(to, nullptr, soon, problem);
    REQUIRE(channel_);
    REQUIRE(channel_->write_text(remote::token_message(kToken, remote::kProducer, "clicks")));
    remote::TcpChannel::Head head;
    REQUIRE(channel_->read_head(head, soon));
    std::string text(head.bytes, '\0');
    REQUIRE(channel_->read(std::as_writable_bytes(std::span(text))));
    REQUIRE(text == remote::kFeedOpen);
  }
  void send(std::span<const std::byte> bytes) {
    REQUIRE(::send(channel_->socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void hello(const char* name) {
    std::vector<std::byte> out;
    protocol::put_feed_text(FeedFrame::hello, protocol::encode({name, "bytes", true}), out);
    send(out);
  }
  void record(std::uint64_t sequence, const std::string& text, std::size_t less = 0) {
    std::vector<std::byte> out;
    protocol::put_feed_record({sequence, 0, 0, -1}, std::as_bytes(std::span(text)), out);
    send(std::span(out).first(out.size() - less));
  }
  // All that comes until the other side closes.
  std::string rest() {
    std::string all;
    char part[4096];
    timeval within{20, 0};
    setsockopt(channel_->socket(), SOL_SOCKET, SO_RCVTIMEO, &within, sizeof within);
    pollfd comes{channel_->socket(), POLLIN, 0};
    while (poll(&comes, 1, 20'000) > 0) {
      const ssize_t got = ::recv(channel_->socket(), part, sizeof part, 0);
      if (got <= 0) break;
      all.append(part, static_cast<std::size_t>(got));
    }
    return all;
  }
  // The other side hears of it at once, with an error.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(channel_->socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    channel_.reset();
  }

 private:
  std::unique_ptr<remote::TcpChannel> channel_;
};

struct Failing {
  explicit Failing(const char* text) { failpoint::configure_failpoints(text); }
  ~Failing() { failpoint::configure_failpoints(""); }
};

}  // namespace

TEST_CASE("records over TCP and TLS are there, in their order, when they are acknowledged") {
  for (const bool by_tls : {false, true}) {
    CAPTURE(by_tls);
    Served served(by_tls);
    if (by_tls && !make_certificate(served.folder.path())) return skipped("openssl is missing");
    served.begin();
    std::unique_ptr<FeedProducer> feed;
    REQUIRE_MESSAGE(open(served.address(), feed) == BF_OK, client::last_error());
    for (std::uint64_t n = 0; n < 3000; ++n) REQUIRE(put(*feed, n) == BF_OK);
    REQUIRE(feed->flush(0) == BF_OK);
    served.check_has(3000);
    const std::string large(300'000, 'x');  // more than the relay holds
    bf_record record{};
    record.bytes = large.data();
    record.count = large.size();
    REQUIRE(feed->put(record) == BF_OK);
    REQUIRE(feed->end() == BF_OK);
    CHECK(served.read(3000) == large);
    CHECK(served.log->has_ended());
  }
}

TEST_CASE("connections that break anywhere lose and double nothing") {
  for (const bool by_tls : {false, true}) {
    CAPTURE(by_tls);
    Served served(by_tls);
    if (by_tls && !make_certificate(served.folder.path())) return skipped("openssl is missing");
    served.begin();
    std::unique_ptr<FeedProducer> feed;
    REQUIRE(open(served.address(), feed) == BF_OK);
    constexpr std::uint64_t kRecords = 2000;
    {
      // In the middle of records and of acknowledgements, of both sides.
      const Failing failing(
          "seed=3,remote.read=fail:0.02:40,remote.write=fail:0.05:40,"
          "remote.read.short=short:0.5,remote.write.short=short:0.5");
      for (std::uint64_t n = 0; n < kRecords; ++n) {
        REQUIRE(put(*feed, n) == BF_OK);
        if (n % 20 == 0) REQUIRE(feed->flush(0) == BF_OK);
      }
      REQUIRE(feed->flush(0) == BF_OK);
      std::uint64_t broken = 0;
      for (const auto& one : failpoint::failpoint_counts())
        if (one.name == "remote.read" || one.name == "remote.write") broken += one.acted;
      CHECK(broken > 10);
    }
    served.check_has(kRecords);
    CHECK(served.log->counts().taken == kRecords);
  }
}

// The service ends and comes back again and again.
void check_sent_over_restarts(Served& served, FeedProducer& feed) {
  for (std::uint64_t n = 0; n < 1000; ++n) {
    if (n % 250 == 100) {
      served.end();
      served.begin();
    }
    REQUIRE(put(feed, n) == BF_OK);
  }
  REQUIRE(feed.flush(0) == BF_OK);
  served.check_has(1000);
}

TEST_CASE("a service that comes back is sent what it has not acknowledged, and no more") {
  Served served;
  served.begin();
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(open(served.address(), feed) == BF_OK);
  check_sent_over_restarts(served, *feed);
}

TEST_CASE("a node passes its producers on to another, which need not take others") {
  Served served;
  const std::string token(64, 'c');
  served.options.cluster_token_file = served.token("cluster", token);
  served.options.feeds = false;
  served.begin();
  std::string shown = token;
  remote::RemoteOptions options;
  options.port = 0;
  options.token_file = served.options.token_file;
  options.feeds = true;
  const remote::RemoteListener node(
      options, "", remote::RemoteListener::ServeNode(), [&](const std::string& name) {
        remote::OpenedFeed opened;
        remote::RemoteAddress to;
        opened.why = "not_yet";
        remote::parse_remote(fmt::format("tcp://127.0.0.1:{}", served.options.port), to,
                             opened.problem);
        const auto soon = remote::TcpChannel::Clock::now() + 20s;
        auto channel = remote::TcpChannel::connect(to, nullptr, soon, opened.problem);
        if (channel &&
            channel->write_text(remote::token_message(shown, remote::kForwarded, name)) &&
            remote::is_feed_open(*channel, soon, opened.why, opened.problem))
          opened.end = remote::feed_end(std::move(channel));
        return opened;
      });
  const auto address = [&](const char* name) {
    return fmt::format("tcp://127.0.0.1:{}/{}", node.port(), name);
  };
  std::unique_ptr<FeedProducer> feed;
  SUBCASE("what is acknowledged is in the log once, whichever of them comes back") {
    REQUIRE_MESSAGE(open(address("clicks"), feed) == BF_OK, client::last_error());
    check_sent_over_restarts(served, *feed);
  }
  SUBCASE("what the other says is passed on") {
    CHECK(open(address("others"), feed, 2) == BF_NO_SERVICE);
    CHECK(std::string(client::last_error()).find("no feed 'others'") != std::string::npos);
    shown = std::string(64, 'd');
    CHECK(open(address("clicks"), feed) == BF_REFUSED);
    CHECK(std::string(client::last_error()).find("the node's token") != std::string::npos);
  }
}

TEST_CASE("producers that may not send are told why") {
  Served served;
  std::unique_ptr<FeedProducer> feed;
  const auto says = [](const char* text) {
    const std::string why = client::last_error();
    CHECK_MESSAGE(why.find(text) != std::string::npos, why);
  };
  SUBCASE("without a token") {
    served.begin();
    unsetenv("BATCHFLOW_TOKEN_FILE");
    CHECK(open(served.address(), feed, 600) == BF_REFUSED);  // at once
    says("BATCHFLOW_TOKEN_FILE");
  }
  SUBCASE("with a file of tokens that cannot be read") {
    served.begin();
    setenv("BATCHFLOW_TOKEN_FILE", (served.folder.path() + "/none").c_str(), 1);
    CHECK(open(served.address(), feed, 600) == BF_REFUSED);
    says("/none: No such file or directory");
  }
  SUBCASE("with a port that is none") {
    served.begin();
    CHECK(open("tcp://127.0.0.1:99999/clicks", feed, 600) == BF_REFUSED);
    says("is not an address");
  }
  SUBCASE("with a wrong token") {
    served.begin();
    setenv("BATCHFLOW_TOKEN_FILE", served.token("wrong", std::string(64, 'w')).c_str(), 1);
    CHECK(open(served.address(), feed) == BF_REFUSED);
    says("does not know the token");
  }
  SUBCASE("where the operator has not said so") {
    served.options.feeds = false;
    served.begin();
    CHECK(open(served.address(), feed) == BF_REFUSED);
    says("--tcp-feeds");
  }
  SUBCASE("a feed that is not there") {
    served.begin();
    CHECK(open(served.address("others"), feed, 2) == BF_NO_SERVICE);
    says("no feed 'others'");
  }
  SUBCASE("an address without a feed") {
    served.begin();
    CHECK(open(fmt::format("tcp://127.0.0.1:{}", served.options.port), feed) == BF_REFUSED);
    says("names no feed");
  }
  SUBCASE("TLS where there is none") {
    served.begin();
    CHECK(open(fmt::format("tls://127.0.0.1:{}/clicks", served.options.port), feed, 2) ==
          BF_NO_SERVICE);
    says("write tcp://");
  }
  SUBCASE("another schema") {
    served.begin();
    bf_feed_options options{};
    const std::string address = served.address();
    options.folder = address.c_str();
    options.producer = "one";
    options.schema = "f32[4]";
    CHECK(FeedProducer::open(options, feed) == BF_REFUSED);
    says("'f32[4]'");
  }
  CHECK(served.log->end_record() == 0);
}

TEST_CASE("a producer that comes again with a file of tokens that went is told at once") {
  Served served;
  served.begin();
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(open(served.address(), feed, 600) == BF_OK);
  REQUIRE(put(*feed, 0) == BF_OK);
  REQUIRE(feed->flush(0) == BF_OK);
  setenv("BATCHFLOW_TOKEN_FILE", (served.folder.path() + "/none").c_str(), 1);
  served.end();
  served.begin();
  bf_status status = BF_OK;
  CHECK(comes([&] {
    status = put(*feed, 1);
    if (status == BF_OK) status = feed->flush(600);
    return status != BF_OK;
  }));
  CHECK(status == BF_REFUSED);
  CHECK(std::string(client::last_error()).find("/none: No such file") != std::string::npos);
}

TEST_CASE("hostile producers end themselves, and the feed goes on") {
  Served served;
  served.begin();
  Raw raw(served);
  SUBCASE("a frame of two gigabytes") {
    raw.hello("bad");
    std::vector<std::byte> out;
    protocol::put_feed(std::uint32_t{0x8000'0000}, out);
    protocol::put_feed(static_cast<std::uint8_t>(FeedFrame::record), out);
    raw.send(out);
    CHECK(raw.rest().find("a frame of 2147483648 bytes") != std::string::npos);
    CHECK(served.log->counts().malformed == 1);
  }
  SUBCASE("nonsense in place of a hello") {
    const std::string text = "GET / HTTP/1.1\r\n\r\n";
    raw.send(std::as_bytes(std::span(text)));
    CHECK(raw.rest().find("bytes") != std::string::npos);
  }
  SUBCASE("a record that is cut off") {
    raw.hello("bad");
    raw.record(1, "half a record", 3);
    raw.reset();
    CHECK(comes([&] { return served.log->counts().malformed == 1; }));
  }
  SUBCASE("a reset while records are acknowledged") {
    raw.hello("bad");
    for (std::uint64_t n = 1; n <= 50; ++n) raw.record(n, fmt::format("record {}", n - 1));
    CHECK(comes([&] { return served.log->end_record() > 0; }));
    raw.reset();
    // What was taken of it is whole, in its order and once; it comes again and sends all of them.
    CHECK(comes([&] { return served.server->status().producers == 0; }));
    Raw again(served);
    again.hello("bad");
    for (std::uint64_t n = 1; n <= 50; ++n) again.record(n, fmt::format("record {}", n - 1));
    CHECK(comes([&] { return served.log->end_record() == 50; }));
    served.check_has(50);
    return;
  }
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(open(served.address(), feed) == BF_OK);
  REQUIRE(put(*feed, 0) == BF_OK);
  REQUIRE(feed->flush(0) == BF_OK);
  served.check_has(1);
}

TEST_CASE("a producer over TCP is told to wait, and to go on") {
  Served served;
  served.begin();
  std::unique_ptr<FeedProducer> feed;
  REQUIRE(open(served.address(), feed) == BF_OK);
  served.server->pace(0, true, std::uint64_t{1} << 32);
  bf_feed_info info{};
  std::uint64_t sent = 0;
  REQUIRE(comes([&] {
    feed->flush(0.05);
    feed->info(info);
    if (info.waits == 0) put(*feed, sent++);
    return info.waits != 0;
  }));
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    served.server->pace(0, false, std::uint64_t{1} << 32);
  });
  CHECK(put(*feed, sent++) == BF_OK);  // it returns when the feed has said that it may go on
  later.join();
  REQUIRE(feed->flush(0) == BF_OK);
  served.check_has(sent);
}

}  // namespace batchflow::test::feed_relay_test
