// The real program in an environment that fails it: closed streams, full disks, readers that are
// gone, signals, narrow terminals.
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::cli_streams_test {
using nlohmann::json;

namespace {

void to_full_device(int descriptor) {
  dup2(open("/dev/full", O_WRONLY), descriptor);
}

// Replays for a minute, unless it is stopped.
const std::vector<std::string> kLong = {"cache", "gen:perm,n=3000000,epochs=100", "--policy",
                                        "gdsf"};

}  // namespace

TEST_CASE("closed standard streams are taken for no file") {
  const Folder folder;
  const std::string path = folder.name("x.json");
  const std::vector<std::string> words = {"cache", kSmall, "--json=" + path,
                                          "--csv=" + folder.name("x.csv")};
  const json expected = json::parse(run({"cache", kSmall, "--json"}).out);
  for (unsigned closed = 1; closed < 8; ++closed) {
    CAPTURE(closed);
    const Outcome outcome = run(words, [&] {
      for (int stream = 0; stream < 3; ++stream) {
        if ((closed >> stream & 1) != 0) close(stream);
      }
    });
    const bool lost = (closed & 2) != 0;  // the table could not be written anywhere
    CHECK(outcome.code == (lost ? 1 : 0));
    CHECK(json::parse(content(path)) == expected);
    CHECK(content(folder.path() / "x.csv").starts_with("policy,size,"));
    if (lost && (closed & 4) == 0) CHECK(outcome.err.find("standard output") != std::string::npos);
    std::filesystem::remove(path);
  }
  const Outcome no_input = run({"cache", "-"}, [] { close(0); });
  CHECK(no_input.code == 2);
  CHECK(no_input.err.find("standard input: cannot be read") != std::string::npos);
}

TEST_CASE("a result that cannot be written is a failure that is reported") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"cache", kSmall},
                                                {"cache", kSmall, "--json"},
                                                {"cache", kSmall, "--csv"},
                                                {"policy", "list"},
                                                {"policy", "show", "lru", "--json"},
                                                {"--help"},
                                                {"cache", "--version"},
                                                {"cache", "gen:help"}}) {
    CAPTURE(words.back());
    const Outcome outcome = run(words, [] { to_full_device(1); });
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("standard output: cannot be written: No space left") !=
          std::string::npos);
  }
  const Outcome device = run({"cache", kSmall, "--json=/dev/full"});
  CHECK(device.code == 1);
  CHECK(device.out.empty());
}

TEST_CASE("where errors cannot be printed the exit code still shows them") {
  CHECK(run({"cache", "/nowhere"}, [] { to_full_device(2); }).code == 2);
  CHECK(run({"cahce"}, [] { to_full_device(2); }).code == 2);
  CHECK(run({"cache", kSmall}, [] { to_full_device(2); }).code == 0);
  CHECK(run({"cache", kSmall, "--json"}, [] { to_full_device(2); }).code == 0);
}

TEST_CASE("a reader that is gone ends the program as any other, and nothing stays behind") {
  const Folder folder;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  const std::string path = folder.name("x.json");
  const Outcome outcome = run({"cache", kSmall, "--json=" + path}, [&] { dup2(ends[1], 1); });
  close(ends[1]);
  CHECK(outcome.code == 1000 + SIGPIPE);
  CHECK(outcome.err.empty());
  CHECK(json::parse(content(path)).contains("runs"));
  CHECK(folder.files() == 1);
}

TEST_CASE("a file that may not grow is a failure, and nothing stays behind") {
  const Folder folder;
  const std::string old = folder.file("x.json", "old");
  const Outcome outcome = run({"cache", kSmall, "--json=" + old}, [] {
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("x.json: cannot be written: File too large") != std::string::npos);
  CHECK(content(old) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("an interrupt ends the program with 130 and no file") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(signal);
    const Folder folder, results;
    std::vector<std::string> words = kLong;
    words.push_back("--json=" + results.name("x.json"));
    const pid_t child = start(words, folder);
    wait_until_it_handles(child, signal);
    usleep(20000);
    kill(child, signal);
    const Outcome outcome = finish(child, folder);
    CHECK(outcome.code == 130);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == "batchflow-sim: interrupted\n");
    CHECK(results.files() == 0);
  }
}

TEST_CASE("what was started to outlive its terminal does") {
  const Folder folder;
  const pid_t child =
      start({"cache", "gen:zipf,n=1000", "-p", "lru"}, folder, [] { signal(SIGHUP, SIG_IGN); });
  wait_until_it_handles(child, SIGINT);
  kill(child, SIGHUP);
  CHECK(finish(child, folder).code == 0);
}

TEST_CASE("an interrupt ends the wait for a pipe") {
  const Folder folder;
  const std::string pipe_name = folder.name("pipe");
  REQUIRE(mkfifo(pipe_name.c_str(), 0600) == 0);
  const auto interrupted = [&](const std::vector<std::string>& words, bool with_writer) {
    const Folder streams;
    const pid_t child = start(words, streams);
    const int writer = with_writer ? open(pipe_name.c_str(), O_WRONLY) : -1;
    wait_until_it_handles(child, SIGINT);
    usleep(100000);
    kill(child, SIGINT);
    const Outcome outcome = finish(child, streams);
    if (writer >= 0) close(writer);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 130);
  };
  interrupted({"cache", pipe_name}, false);  // the writer of the pipe has not come
  interrupted({"cache", pipe_name}, true);   // or writes nothing
  interrupted({"cache", kSmall, "--json=" + pipe_name},
              false);  // the reader of the pipe has not come
}

TEST_CASE("fewer threads than were asked for do the same work") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skipped("sanitizers need more address space than this test leaves");
#else
  const std::vector<std::string> words = {"cache", "gen:perm,n=1000,epochs=3", "--json",
                                          "--threads=1024"};
  std::string sizes = "1%";
  for (int size = 2; size < 100; ++size) sizes += "," + std::to_string(size) + "%";
  const auto with = [&](const Prepare& prepare) {
    std::vector<std::string> all = words;
    all.push_back("--size=" + sizes);
    return run(all, prepare);
  };
  const Outcome limited = with([] {
    // Room for three stacks, and for the work.
    const rlimit stack{rlim_t{1} << 30, rlim_t{1} << 30}, all{rlim_t{7} << 29, rlim_t{7} << 29};
    setrlimit(RLIMIT_STACK, &stack);
    setrlimit(RLIMIT_AS, &all);
  });
  CAPTURE(limited.err);
  CHECK(limited.code == 0);
  CHECK(limited.out == with({}).out);
#endif
}

namespace {

// The output of the program to a terminal of so many columns as standard error.
std::string seen_on_terminal(const std::vector<std::string>& words, int columns) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  grantpt(terminal);
  unlockpt(terminal);
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  ioctl(terminal, TIOCSWINSZ, &size);
  const std::string name = ptsname(terminal);
  const Folder folder;
  const pid_t child = start(words, folder, [&] { dup2(open(name.c_str(), O_RDWR | O_NOCTTY), 2); });
  std::string seen;
  char bytes[4096];
  for (;;) {
    const ssize_t n = read(terminal, bytes, sizeof bytes);
    if (n > 0) seen.append(bytes, static_cast<std::size_t>(n));
    // EIO until the child has opened its end, and after it has closed it.
    if (n <= 0 && waitpid(child, nullptr, WNOHANG) == child) break;
    if (n <= 0) usleep(1000);
  }
  close(terminal);
  return seen;
}

}  // namespace

TEST_CASE("the progress bar takes one line of any terminal") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return batchflow::test::skipped("no pseudoterminals (/dev/pts) here");
  close(terminal);
  const Folder folder;
  std::string csv;
  for (int i = 0; i < 300000; ++i) csv += "0," + std::to_string(i % 1000) + ",1\n";
  const std::string path = folder.file(std::string(150, 'n') + "\xc3\xa9.csv", csv);
  for (const int columns : {1, 2, 7, 20, 47, 80, 500}) {
    CAPTURE(columns);
    const std::string seen = seen_on_terminal({"cache", path, "-p", "lru", "-s", "1%"}, columns);
    CHECK(seen.find('\n') == std::string::npos);
    CHECK((columns < 7 || seen.find('%') != std::string::npos));
    CHECK((columns < 500 || seen.find("nn\xc3\xa9.csv [") != std::string::npos));
    std::stringstream paints(seen);
    for (std::string line; std::getline(paints, line, '\r');) {
      const std::string shown = line.substr(0, line.find('\033'));
      const int wide = shown.find('\xc3') != std::string::npos ? 1 : 0;  // two bytes, one column
      CHECK(static_cast<int>(shown.size()) - wide < columns);
    }
  }
}

}  // namespace batchflow::test::cli_streams_test
