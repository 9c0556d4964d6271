// The machine's clock is set forth and back by years while a service runs and a job trains: nothing
// waits for longer or shorter, and nothing is lost.
#include <cstdio>
#include <set>
#include <sstream>

#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/skip.h"

namespace batchflow::test::clock_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A program's surroundings in which the clock jumps.
std::vector<std::string> jumping() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return {"env", "LD_PRELOAD=" BATCHFLOW_JUMPING_CLOCK,
          // The preloaded library comes before a sanitizer's, which is as it should be.
          fmt::format("ASAN_OPTIONS={}{}verify_asan_link_order=0", options ? options : "",
                      options ? ":" : "")};
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (char buffer[4096]; std::fgets(buffer, sizeof buffer, pipe) != nullptr;) text += buffer;
  text += fmt::format("exit code {}\n", WEXITSTATUS(pclose(pipe)));
  return text;
}
std::string jumping_command() {
  std::string words;
  for (const std::string& word : jumping()) words += "'" + word + "' ";
  return words;
}

// Whether programs see it: a date some moments later is another year's, as a rule.
bool jumps() {
  std::set<std::string> years;
  for (int i = 0; i < 12; ++i) {
    years.insert(output_of(jumping_command() + "date +%Y"));
    std::this_thread::sleep_for(60ms);
  }
  return years.size() > 3;
}

constexpr std::uint64_t kRows = 2000;

// What batchflow-example prints of batches of four: all their keys.
std::vector<std::uint64_t> keys_of(const std::string& printed) {
  std::vector<std::uint64_t> keys;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(", keys");
    if (!line.starts_with("step ") || at == line.npos) continue;
    std::istringstream numbers(line.substr(at + 6));
    for (std::uint64_t key; numbers >> key;) keys.push_back(key);
  }
  return keys;
}

TEST_CASE("the clock is set while a job trains, its service is killed, and both end in time") {
  if (!jumps()) return skipped("no library can be preloaded here");
  const Folder folder;
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
  const std::string socket = folder.path() / "b.sock";
  Daemon daemon({"--dataset", "rows=" + (folder.path() / "rows").string(), "--memory", "512mib",
                 "--http", "-1", "--socket", socket, "--state", folder.path() / "state",
                 "--journal", "--exit-when-idle", "2"},
                socket, jumping());
  const auto began = Clock::now();
  const std::string job = fmt::format("{} BATCHFLOW_SERVICE={} {} rows 500 4 2 2>&1",
                                      jumping_command(), socket, BATCHFLOW_EXAMPLE);
  std::string printed;
  std::thread training([&] { printed = output_of(job); });
  while (command(socket, "status").value("samples", 0) < 200 && Clock::now() - began < 20s)
    std::this_thread::sleep_for(5ms);
  CHECK(daemon.kill(SIGKILL) == -SIGKILL);
  daemon.start();
  training.join();
  CAPTURE(printed);
  CHECK(printed.find("exit code 0") != printed.npos);
  CHECK(is_whole(keys_of(printed), kRows));
  CHECK(Clock::now() - began > 1s);
  CHECK(Clock::now() - began < 30s);
  // From when the job has left, and not from a date.
  const auto left = Clock::now();
  CHECK(daemon.kill(0) == 0);
  CHECK(Clock::now() - left > 1s);
  CHECK(Clock::now() - left < 10s);
}

}  // namespace
}  // namespace batchflow::test::clock_test
