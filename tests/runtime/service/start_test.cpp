// What a service needs of its machine is said at its start, and its time never goes back.
#include <sstream>

#include "runtime/service/listening.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {
namespace {

std::string problem_of(NodeConfig config) {
  try {
    settle(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("too little memory, or more than the machine has, is refused with numbers") {
  NodeConfig config = default_node_config();
  config.memory = Bytes{100} << 20;
  CHECK(problem_of(config) ==
        "memory: 100 MiB are too little: 25 MiB go to staging and 64 MiB to the service itself, "
        "and at least 80 MiB must be left for batches; give it 192 MiB or more (--memory)");
  config.memory = Bytes{192} << 20;
  CHECK(problem_of(config) == "");
  config.memory = Bytes{1} << 60;
  CHECK(problem_of(config).find("memory: 1099511627776 MiB are asked for, and the machine has ") ==
        0);
}

TEST_CASE("what is not said fits the machine") {
  NodeConfig config = default_node_config();
  settle(config);
  CHECK(config.workers >= 1);
  CHECK(config.memory > 0);
  CHECK(config.storage.staging <= config.memory / 4);
}

TEST_CASE("socket and state may be named from the working folder") {
  const Folder folder;
  Daemon daemon({"--open-datasets", "--socket", "b.sock", "--state", "state", "--memory", "256mib",
                 "--http", "-1"},
                folder.path() / "b.sock", {"env", "-C", folder.path()});
  CHECK(daemon.kill(SIGTERM) == 0);
  CHECK(std::filesystem::is_directory(folder.path() / "state"));
}

// What a service says that does not begin, and its exit code before it.
std::string refused(const std::string& arguments) {
  const std::string command = fmt::format("timeout 20 {} {} 2>&1", BATCHFLOWD, arguments);
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  for (int c = 0; (c = fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  return fmt::format("{}: {}", WEXITSTATUS(pclose(pipe)), said);
}

TEST_CASE("a state folder is one service's, and who is refused leaves nothing") {
  const Folder folder;
  const std::string state = folder.path() / "state";
  const std::string mine = folder.path() / "b.sock";
  Daemon daemon({"--open-datasets", "--socket", mine, "--state", state, "--memory", "256mib",
                 "--http", "-1", "--journal"},
                mine);
  const std::string other = folder.path() / "other.sock";
  const std::string said =
      refused(fmt::format("--open-datasets --socket {} --state {} --memory 256mib --http -1 "
                          "--journal",
                          other, state));
  CHECK_MESSAGE(said.find("2: ") == 0, said);
  CHECK(said.find("another service keeps its indices and logs there") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK_FALSE(std::filesystem::exists(state + "/journal.before"));
  // Its socket's file is another's by now.
  std::filesystem::remove(mine);
  const Descriptor listening = listen_at(mine);
  CHECK(daemon.kill(SIGTERM) == 0);
  CHECK(std::filesystem::exists(mine));
}

TEST_CASE("two data sets of one name are refused, with both paths") {
  const Folder folder;
  for (const char* one : {"a/train", "b/train"})
    std::filesystem::create_directories(folder.path() / one);
  const std::string said =
      refused(fmt::format("--dataset {0}/a/train --dataset {0}/b/train "
                          "--socket {0}/s --state {0}/st --http -1",
                          folder.path().string()));
  CHECK_MESSAGE(said.find("2: batchflowd: two datasets are called 'train': ") == 0, said);
  CHECK(said.find("/a/train and ") != std::string::npos);
}

TEST_CASE("a pipeline or a format that is not there is refused at the start, with those that are") {
  const Folder folder;
  const auto with = [&](const std::string& options) {
    return refused(fmt::format("--dataset x={0},{1} --socket {0}/s --state {0}/st --http -1",
                               folder.path().string(), options));
  };
  CHECK(with("pipeline=nosuch").find("': unknown pipeline 'nosuch'; write one of bytes, ") !=
        std::string::npos);
  CHECK(with("pipeline=nosuch").find("2: ") == 0);
  CHECK(with("format=nix").find("': unknown format 'nix'; write one of images, ") !=
        std::string::npos);
  CHECK(with("format=tokens").find("write tokens=1024") != std::string::npos);
}

// As a service does that is killed while it starts a process, which has what it has until it is
// another program.
TEST_CASE("a service that was killed does not listen any more, though a child holds its socket") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "b.sock";
  int ready[2], over[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(over) == 0);
  char word = 0;
  const pid_t service = fork();
  if (service == 0) {
    const Descriptor listening = listen_at(path);
    if (fork() == 0) {  // until the test closes its end
      close(over[1]);
      [[maybe_unused]] const ssize_t none = read(over[0], &word, 1);
      _exit(0);
    }
    [[maybe_unused]] const ssize_t told = write(ready[1], "!", 1);
    pause();
  }
  REQUIRE(read(ready[0], &word, 1) == 1);
  CHECK_THROWS_WITH_AS(listen_at(path), doctest::Contains("another service listens there already"),
                       ConfigError);
  kill(service, SIGKILL);
  waitpid(service, nullptr, 0);
  CHECK(listen_at(path));
  for (const int end : {ready[0], ready[1], over[0], over[1]}) close(end);
}

// A step of the machine's clock would be a step of the engine's. The calendar names a start of the
// service and dates the lines of its log, and nothing is decided by either.
TEST_CASE("nothing of the runtime or the engine asks what time of day it is") {
  std::size_t files = 0;
  for (const char* folder : {"runtime", "core", "policies"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string suffix = entry.path().extension();
      if (suffix != ".cpp" && suffix != ".h") continue;
      ++files;
      std::ifstream in(entry.path());
      std::string line;
      while (std::getline(in, line)) {
        if (line.find("fmt::format(\"{}-{}\", getpid(), std::chrono::system_clock") !=
                std::string::npos ||
            (entry.path().filename() == "service_log.h" &&
             line == "  using Clock = std::chrono::system_clock;"))
          continue;
        for (const char* word : {"system_clock", "CLOCK_REALTIME", "gettimeofday", "time(nullptr)",
                                 "high_resolution_clock", "time(NULL)"}) {
          CAPTURE(entry.path().string());
          CAPTURE(line);
          CHECK(line.find(word) == std::string::npos);
        }
      }
    }
  }
  CHECK(files > 100);
}

}  // namespace
}  // namespace batchflow::test
