// What a service needs of its machine is said at its start, and its time never goes back.
#include <sys/stat.h>

#include <sstream>

#include "fmt/format.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/service_version.h"
#include "tests/config_error.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::start_test {
namespace {

std::string problem_of(service::NodeConfig config) {
  return config_error([&] { service::settle(config); });
}

TEST_CASE("too little memory, or more than the machine has, is refused with numbers") {
  service::NodeConfig config = service::default_node_config();
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
  service::NodeConfig config = service::default_node_config();
  service::settle(config);
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
std::string refused(const std::string& arguments, const std::string& before = "",
                    const char* program = BATCHFLOWD) {
  const std::string command = fmt::format("{}timeout 20 {} {} 2>&1", before, program, arguments);
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  for (int c = 0; (c = fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  return fmt::format("{}: {}", WEXITSTATUS(pclose(pipe)), said);
}

TEST_CASE("a state folder is one service's, and a service that is refused leaves nothing") {
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
  const protocol::Descriptor listening = service::listen_at(mine);
  CHECK(daemon.kill(SIGTERM) == 0);
  CHECK(std::filesystem::exists(mine));
}

TEST_CASE("with too few descriptors no service begins, and it is said how many it needs") {
  const Folder folder;
  const auto with = [&](int files) {
    return refused(fmt::format("--open-datasets --socket {0}/s --state {0}/st --memory 256mib "
                               "--http -1 --exit-when-idle 0.01",
                               folder.path().string()),
                   fmt::format("ulimit -n {}; ", files));
  };
  const std::string said = with(20);
  CHECK_MESSAGE(said.find("2: batchflowd: this process may have 20 files and sockets open, and "
                          "needs 160 at least; raise that (LimitNOFILE=, ulimit -n)") == 0,
                said);
  CHECK(with(160).find("0: ") == 0);
}

TEST_CASE(
    "what is no file of bytes where the service keeps its own is an error, and not waited for") {
  const Folder folder;
  const std::string state = folder.path() / "st";
  std::filesystem::create_directory(state);
  for (const char* name : {"promises", "promises.new", "lock", "indices"}) {
    CAPTURE(name);
    const std::string path = state + "/" + name;
    for (const bool is_folder : {false, true}) {
      std::filesystem::remove_all(path);
      if (is_folder && std::string_view(name) == "indices") continue;  // as it should be
      REQUIRE((is_folder ? mkdir(path.c_str(), 0700) : mkfifo(path.c_str(), 0600)) == 0);
      const std::string said = refused(
          fmt::format("--open-datasets --socket {0}/s --state {0}/st --memory 256mib --http -1 "
                      "--exit-when-idle 0.01",
                      folder.path().string()));
      CHECK_MESSAGE(said.find(fmt::format("2: batchflowd: {}: ", path)) == 0, said);
      CHECK_MESSAGE(said.find("choose another path (--state)") != std::string::npos, said);
    }
    std::filesystem::remove(path);
  }
}

TEST_CASE("a node file is checked without a service, for people who review its changes") {
  const Folder folder;
  const std::string file = folder.path() / "node.yaml";
  const auto checked = [&](const std::string& text, const std::string& more = "") {
    std::ofstream(file, std::ios::trunc) << text;
    return refused(fmt::format("--check {} {}", file, more));
  };
  // Of a machine that is not this one.
  CHECK(checked("kind: node\nmemory: 4tib\ndatasets: [{name: a, path: /not/here}]\n") ==
        fmt::format("0: {}: a service would take it; it serves 1 dataset\n", file));
  CHECK(checked("kind: node\nopen_datasets: true\n") ==
        fmt::format("0: {}: a service would take it; it serves 0 datasets and what jobs bring\n",
                    file));
  CHECK(checked("kind: node\ndatasets: [{path: /a}]\nworkerz: 3\n")
            .find("2: batchflowd: " + file + ":3: ") == 0);
  CHECK(checked("kind: node\nopen_datasets: true\nengine: {policies: {dispatch: nosuch}}\n")
            .find("2: batchflowd: " + file + ":3: key 'engine.policies.dispatch': unknown") == 0);
  CHECK(checked("kind: node\nopen_datasets: true\nstate: \"\"\n")
            .find("2: batchflowd: " + file + ":3: key 'state': it is empty; ") == 0);
  CHECK(checked("kind: node\n").find("2: batchflowd: no dataset to serve") == 0);
  CHECK(checked("kind: node\ndatasets: [{name: a, path: /a}, {name: a, path: /b}]\n")
            .find("2: batchflowd: two datasets are called 'a'") == 0);
  CHECK(checked("kind: node\nopen_datasets: true\ntcp: {port: 1, token_file: t, key: k}\n")
            .find("2: batchflowd: tcp: a certificate takes its key") == 0);
  CHECK(checked("kind: node\nopen_datasets: true\n", "--workers 2")
            .find("2: batchflowd: --check: it reads the file alone") == 0);
  CHECK(refused("--check /not/here").find("2: ") == 0);
  // What a start refuses on any machine.
  CHECK(checked("kind: node\nopen_datasets: true\nspill: {path: /x, bytes: 0}\n")
            .find("2: batchflowd: " + file + ":3: key 'spill.bytes': 0 bytes are too little") == 0);
  CHECK(checked("kind: node\nmemory: 1kib\ndatasets: [{name: a, path: /a}]\n")
            .find("2: batchflowd: memory: 0 MiB are too little: ") == 0);
  CHECK(checked("kind: node\nmemory: 1gib\nscratch: 900gib\nopen_datasets: true\n")
            .find("2: batchflowd: memory: 1024 MiB are too little: ") == 0);
  CHECK(checked("kind: node\nopen_datasets: true\nmemory: 1gib\nlog_file: " +
                (folder.path() / "none" / "log").string() + "\n")
            .find(fmt::format("2: batchflowd: log_file: {}: there is no such folder",
                              (folder.path() / "none").string())) == 0);
  CHECK(checked("kind: node\nopen_datasets: true\nlog_file: " + (folder.path() / "log").string() +
                "\n")
            .find("0: ") == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "log"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "st"));
}

TEST_CASE("a node file that is a pipe is refused, and not waited for") {
  const Folder folder;
  const std::string pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const char* option : {"--check", "--config"})
    CHECK(refused(fmt::format("{} {}", option, pipe)) ==
          fmt::format("2: batchflowd: {}: it is no regular file, and might be waited for; write it "
                      "to a file\n",
                      pipe));
}

TEST_CASE("a dataset's name has no colon, which stands before a split") {
  const Folder folder;
  CHECK(refused(fmt::format("--dataset a/b:c={0} --socket {0}/s --state {0}/st --http -1",
                            folder.path().string()))
            .find("2: batchflowd: dataset 'a/b:c': in names a colon stands before a split; ") == 0);
}

TEST_CASE("an option that is misspelt is answered with the nearest, by both programs") {
  CHECK(refused("--datset a=/a") ==
        "2: batchflowd: unexpected '--datset'; write '--dataset', or see batchflowd --help\n");
  CHECK(refused("--memory=") ==
        "2: batchflowd: --memory= is followed by nothing; write --memory=VALUE; see batchflowd "
        "--help\n");
  CHECK(refused("--workers many").find("2: batchflowd: ") == 0);
  for (const char* option : {"--socket", "--state", "--log-file", "--memory"})
    CHECK(refused(fmt::format("--open-datasets {} ''", option)) ==
          fmt::format("2: batchflowd: {0}: it is followed by an empty text; write {0} VALUE, or "
                      "leave it out\n",
                      option));
  CHECK(
      refused("--version").starts_with(fmt::format("0: batchflowd {}", service::kServiceVersion)));
  CHECK(refused("--help").find("0: The data service of a node") == 0);
  CHECK(refused("statsu", "", BATCHFLOWCTL) ==
        "2: batchflowctl: unknown command 'statsu'; write 'status', or see batchflowctl --help\n");
  CHECK(refused("status --jsn", "", BATCHFLOWCTL) ==
        "2: batchflowctl status: unexpected '--jsn'; write '--json', or see batchflowctl status "
        "--help\n");
  CHECK(refused("drain --servce x", "", BATCHFLOWCTL).find("write '--service', or see") !=
        std::string::npos);
  CHECK(refused("", "", BATCHFLOWCTL).find("2: batchflowctl: a subcommand is missing; write '") ==
        0);
}

TEST_CASE("two datasets of one name are refused, with both paths") {
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
    const protocol::Descriptor listening = service::listen_at(path);
    if (fork() == 0) {  // until the test closes its end
      close(over[1]);
      [[maybe_unused]] const ssize_t none = read(over[0], &word, 1);
      _exit(0);
    }
    [[maybe_unused]] const ssize_t told = write(ready[1], "!", 1);
    pause();
  }
  REQUIRE(read(ready[0], &word, 1) == 1);
  CHECK_THROWS_WITH_AS(service::listen_at(path),
                       doctest::Contains("another service listens there already"), ConfigError);
  kill(service, SIGKILL);
  waitpid(service, nullptr, 0);
  CHECK(service::listen_at(path));
  for (const int end : {ready[0], ready[1], over[0], over[1]}) close(end);
}

// A step of the machine's clock would be a step of the engine's. The calendar names a start of the
// service, dates the lines of its log and what batchflowctl applied, and signs requests to stores;
// nothing of the engine is decided by it.
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
             line == "  using Clock = std::chrono::system_clock;") ||
            (entry.path().filename() == "calendar.h" &&
             line == "using Calendar = std::chrono::system_clock;") ||
            // of records, which come from anywhere
            (entry.path().filename() == "feed_hello.h" &&
             line == "  using TimeOfDay = std::chrono::system_clock;") ||
            (entry.path().filename() == "whatif_command.cpp" &&
             line == "  const auto applied_at = std::chrono::system_clock::now();"))
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
}  // namespace batchflow::test::start_test
