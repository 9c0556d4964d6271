// A service that ends when no client is connected any more: at the right time, and not before.
#include <thread>

#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::idle_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Idle {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  Daemon daemon;
  explicit Idle(const std::string& seconds)
      : daemon({"--open-datasets", "--memory", "512mib", "--http", "-1", "--socket", socket,
                "--state", folder.path() / "state", "--exit-when-idle", seconds},
               socket) {}
};

TEST_CASE("no client comes: the service ends with 0, and its socket is gone") {
  Idle idle("1");
  const auto begin = Clock::now();
  CHECK(idle.daemon.kill(0) == 0);
  CHECK(Clock::now() - begin < 10s);
  CHECK_FALSE(std::filesystem::exists(idle.socket));
}

TEST_CASE("it outlives its bound for as long as a client is connected, and then ends") {
  Idle idle("1");
  const auto begin = Clock::now();
  {
    std::string problem;
    protocol::Channel channel = protocol::Channel::connect(idle.socket, problem);
    REQUIRE(channel.is_open());
    std::this_thread::sleep_for(4s);
    CHECK(std::filesystem::exists(idle.socket));
    CHECK(protocol::Channel::connect(idle.socket, problem).is_open());
  }
  CHECK(idle.daemon.kill(0) == 0);
  CHECK(Clock::now() - begin > 5s);
  CHECK(Clock::now() - begin < 15s);
}

TEST_CASE("without the option it stays") {
  Idle idle("0");
  std::this_thread::sleep_for(2500ms);
  CHECK(std::filesystem::exists(idle.socket));
  CHECK(idle.daemon.kill(SIGTERM) == 0);
}

}  // namespace
}  // namespace batchflow::test::idle_test
