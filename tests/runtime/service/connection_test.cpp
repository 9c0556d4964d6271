// A connection by itself, over a pair of sockets.
#include "runtime/service/connection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/channel.h"

namespace batchflow::test::connection_test {
namespace {

// Answers each frame with itself.
class Echo final : public service::ConnectionHost {
 public:
  bool on_frame(service::Connection& session, std::string_view frame,
                std::vector<protocol::Descriptor>, std::string&) override {
    ++frames;
    session.send(std::string(frame), {});
    return true;
  }
  void on_doorbell(service::Connection&) override {}
  void on_end(service::Connection&) override { ++ends; }
  bool on_unfinished(service::Connection&, std::int64_t) override { return true; }

  int frames = 0;
  int ends = 0;
};

struct Failpoints {
  explicit Failpoints(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Failpoints() { failpoint::configure_failpoints(""); }
};

// What a peer that says "one", "two" and "three" at once is answered.
std::vector<std::string> answers(Echo& host) {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  protocol::Channel peer{protocol::Descriptor(pair[0])};
  for (const char* word : {"one", "two", "three"}) peer.send(word, {}, protocol::Channel::kAtOnce);
  boost::asio::io_context loop;
  std::make_shared<service::Connection>(loop, protocol::Descriptor(pair[1]), host)->start();
  while (host.ends == 0 && host.frames < 3 && loop.run_one() > 0) {
  }
  loop.poll();
  std::vector<std::string> all;
  while (const auto frame = peer.receive(protocol::Channel::kAtOnce)) all.push_back(frame->text);
  return all;
}

}  // namespace

TEST_CASE("frames are answered in their order") {
  Echo host;
  CHECK(answers(host) == std::vector<std::string>{"one", "two", "three"});
  CHECK(host.ends == 0);
}

TEST_CASE("nothing is said after what could not be, and nothing twice") {
  const Failpoints failpoints("service.connection.send=fail:1:1");
  Echo host;
  // The socket took the first answer before it failed.
  CHECK(answers(host) == std::vector<std::string>{"one"});
  CHECK(host.frames == 1);
  CHECK(host.ends == 1);
}

}  // namespace batchflow::test::connection_test
