// Failpoints: exact counts, chances by the seed alone, errors that name the remedy.
#include "runtime/failpoint/failpoint.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "tests/config_error.h"

namespace batchflow::test::failpoint_test {
namespace {

bool first() {
  return BF_FAILPOINT("test.first");
}
bool second() {
  return BF_FAILPOINT("test.second");
}
bool second_elsewhere() {
  return BF_FAILPOINT("test.second");
}
Bytes shorter(Bytes bytes) {
  return BF_FAILPOINT_SHORT("test.short", bytes);
}

// Off again at the end of each test.
struct Configured {
  explicit Configured(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Configured() { failpoint::configure_failpoints(""); }
};

failpoint::FailpointCount count_of(std::string_view name) {
  for (const failpoint::FailpointCount& count : failpoint::failpoint_counts()) {
    if (count.name == name) return count;
  }
  FAIL("no such place");
  return {};
}

int struck(int times) {
  int sum = 0;
  for (int i = 0; i < times; ++i) sum += first();
  return sum;
}

std::string problem(std::string_view text) {
  return config_error([&] { failpoint::configure_failpoints(text); });
}

}  // namespace

TEST_CASE("off, nothing happens and nothing is counted") {
  CHECK(struck(100) == 0);
  CHECK(shorter(100) == 100);
  CHECK(count_of("test.first").reached == 0);
}

TEST_CASE("a failpoint fails when it is configured to, and no other does") {
  const Configured configured("test.first=fail");
  CHECK(struck(100) == 100);
  CHECK_FALSE(second());
  CHECK(count_of("test.first").reached == 100);
  CHECK(count_of("test.first").acted == 100);
  CHECK(count_of("test.second").reached == 1);
  CHECK(count_of("test.second").acted == 0);
}

TEST_CASE("places of one name are counted together") {
  const Configured configured("test.second=fail:1:3");
  CHECK((second() && second_elsewhere()));
  CHECK(count_of("test.second").reached == 2);
}

TEST_CASE("a count bounds how often, also with many threads") {
  const Configured configured("test.first=fail:1:5");
  std::atomic<int> sum{0};
  std::thread threads[4];
  for (std::thread& thread : threads) thread = std::thread([&] { sum += struck(1000); });
  for (std::thread& thread : threads) thread.join();
  CHECK(sum == 5);
  CHECK(count_of("test.first").reached == 4000);
}

TEST_CASE("chances follow the seed") {
  auto pattern = [](std::string_view text) {
    const Configured configured(text);
    std::string drawn;
    for (int i = 0; i < 10'000; ++i) drawn += first() ? '1' : '0';
    return drawn;
  };
  const std::string one = pattern("test.first=fail:0.1,seed=1");
  CHECK(one == pattern("seed=1,test.first=fail:0.1"));
  CHECK(one != pattern("test.first=fail:0.1,seed=2"));
  const auto times = std::count(one.begin(), one.end(), '1');
  CHECK(times > 1000 - 4 * 30);  // four standard deviations
  CHECK(times < 1000 + 4 * 30);
  CHECK(pattern("test.first=fail:0").find('1') == std::string::npos);
}

TEST_CASE("short gives at least one and fewer than all") {
  const Configured configured("test.short=short");
  for (Bytes bytes = 2; bytes < 200; ++bytes) {
    const Bytes given = shorter(bytes);
    CHECK(given >= 1);
    CHECK(given < bytes);
  }
  CHECK(shorter(1) == 1);
}

TEST_CASE("delay waits and goes on") {
  const Configured configured("test.first=delay-30:1:1");
  const auto begin = std::chrono::steady_clock::now();
  CHECK(struck(2) == 0);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
  CHECK(count_of("test.first").acted == 1);
}

TEST_CASE("kill kills") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    failpoint::configure_failpoints("test.first=kill");
    _exit(first() ? 1 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("a process that cannot be asked appends each report to a file") {
  std::string name = "/tmp/batchflow-report-XXXXXX";
  close(mkstemp(name.data()));
  {
    const Configured configured("test.first=fail:1:2,report=" + name);
    struck(3);
    failpoint::report_failpoints();
    struck(1);
    failpoint::report_failpoints();
  }
  failpoint::report_failpoints();  // it is off, and does nothing
  std::ifstream in(name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.find(" test.first ") != std::string::npos) lines.push_back(line);
  }
  const std::string process = std::to_string(getpid());
  CHECK(lines == std::vector{process + " test.first 3 2", process + " test.first 4 2"});
  unlink(name.c_str());
}

TEST_CASE("all at once, and single ones otherwise") {
  const Configured configured("*=count,test.second=fail");
  CHECK(struck(7) == 0);
  CHECK(second());
  CHECK(count_of("test.first").reached == 7);
}

TEST_CASE("a wrong configuration is refused, and nothing changes") {
  const Configured configured("test.first=fail");
  CHECK(problem("test.frist=fail") ==
        "BATCHFLOW_FAILPOINTS: `test.frist=fail`: did you mean test.first?");
  CHECK(problem("nonsense=fail").find("no such failpoint") != std::string::npos);
  CHECK(problem("test.first").find("write name=action") != std::string::npos);
  CHECK(problem("test.first=explode").find("no such action") != std::string::npos);
  CHECK(problem("test.first=fail:2").find("from 0 to 1") != std::string::npos);
  CHECK(problem("test.first=fail:1:x").find("how often") != std::string::npos);
  CHECK(problem("test.first=delay-x").find("milliseconds") != std::string::npos);
  CHECK(problem("seed=x").find("number") != std::string::npos);
  CHECK(first());
}

}  // namespace batchflow::test::failpoint_test
