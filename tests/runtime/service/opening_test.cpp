// Opening a dataset that a job has named: bounded, stopped with its job and with the service, and
// of nothing but what the job's user has shown.
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/service/datasets/openers.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/early_child.h"
#include "tests/runtime/service/joining_by_hand.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/sources/tar_bytes.h"
#include "tests/skip.h"

namespace batchflow::test::opening_test {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kStranger = 54321;
// Each of 17 billion rows is asked for its name's hash: an hour.
constexpr const char* kLong = "tokens=64,split=tiny:0.000000001";

struct Place {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::vector<std::string> arguments = {"--open-datasets",
                                        "--memory",
                                        "300mib",
                                        "--http",
                                        "-1",
                                        "--workers",
                                        "1",
                                        "--socket",
                                        socket,
                                        "--state",
                                        folder.path() / "state"};
  bool has_large_files = true;
  Place() {
    chmod(folder.path().c_str(), 0755);
    for (int i = 0; i < 6; ++i) {
      const std::filesystem::path data = folder.path() / fmt::format("{}", i);
      write_file(data / "b.u16", {});
      has_large_files = has_large_files && truncate((data / "b.u16").c_str(), off_t{2} << 40) == 0;
    }
  }
  std::string data(int number) const { return folder.path() / fmt::format("{}", number); }
};

template <class Holds>
bool becomes(Holds holds) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

std::size_t threads_of(pid_t process) {
  const std::filesystem::directory_iterator tasks(fmt::format("/proc/{}/task", process));
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST_CASE("what is opened for a job is given up when the job has left, and when the service ends") {
  const Place place;
  if (!place.has_large_files) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  Daemon daemon(place.arguments, place.socket);
  std::size_t threads = 0;
  {
    ByHand job(place.socket);
    REQUIRE(job.ask(place.data(0), kLong));
    REQUIRE(becomes([&] { return command(place.socket, "status").at("opening").size() == 1; }));
    threads = threads_of(daemon.process());
  }
  CHECK(becomes([&] { return command(place.socket, "status").at("opening").empty(); }));
  CHECK(becomes([&] { return threads_of(daemon.process()) < threads; }));
  // Not as long as another waits for it.
  ByHand first(place.socket), second(place.socket);
  REQUIRE(first.ask(place.data(0), kLong));
  REQUIRE(second.ask(place.data(0), kLong));
  REQUIRE(becomes([&] { return command(place.socket, "status").at("opening").size() == 1; }));
  first.close();
  CHECK(becomes([&] { return command(place.socket, "status").at("connections") == 2; }));
  CHECK(command(place.socket, "status").at("opening").size() == 1);
  CHECK(daemon.kill(SIGTERM) == 0);
}

TEST_CASE("a weighted order of more samples than have weights is refused with both numbers") {
  Place place;
  if (!place.has_large_files) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  place.arguments.insert(place.arguments.end(),
                         {"--dataset", fmt::format("long={},tokens=64", place.data(0))});
  Daemon daemon(place.arguments, place.socket);
  ByHand job(place.socket);
  protocol::JoinRequest request;
  request.dataset = "long";
  request.order = Order::weighted;
  REQUIRE(job.ask(request));
  const std::string answer = job.answer();
  CHECK_MESSAGE(answer.find("a weighted order of 17179869184 samples, and each has a weight; it "
                            "may have 2147483648 samples") != std::string::npos,
                answer);
}

TEST_CASE("a user's jobs open only so many datasets at once, and other users' jobs go on") {
  const Place place;
  if (!place.has_large_files) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  Daemon daemon(place.arguments, place.socket);
  std::vector<ByHand> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.emplace_back(place.socket);
    REQUIRE(jobs.back().ask(place.data(i), kLong));
  }
  REQUIRE(becomes([&] { return command(place.socket, "status").at("opening").size() == 4; }));
  ByHand fifth(place.socket);
  REQUIRE(fifth.ask(place.data(4), kLong));
  const std::string answer = fifth.answer();
  CHECK(answer.find("not_yet") != std::string::npos);
  CHECK(answer.find("4 datasets are being opened for jobs of user ") != std::string::npos);
  // An opening for which no job waits any more makes room.
  jobs.front().close();
  CHECK(becomes([&] {
    ByHand again(place.socket);
    return again.ask(place.data(5), "tokens=64") &&
           again.answer().find("not_yet") == std::string::npos;
  }));
  CHECK(daemon.kill(SIGINT) == 130);
}

TEST_CASE("rows that are alike count towards what a user's jobs may bring, and the memory") {
  const Place place;
  if (!place.has_large_files) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  service::NodeConfig config = config_in(place.folder.path());
  config.open_datasets = true;
  config.memory = Bytes{300} << 20;
  const LiveService service(config);
  const std::string socket = config.socket;
  const auto asks = [&](const std::string& reading) {
    ByHand job(socket);
    REQUIRE(job.ask(place.data(0), reading));
    return job.answer();
  };
  const std::string many = asks("tokens=64");
  CHECK(many.find("it has 17179869184 samples, and jobs of user ") != std::string::npos);
  CHECK(many.find("may bring 1073741824 more; serve it by a name") != std::string::npos);
  // Few enough, but a byte of tables for each: 80 MiB are for batches, and 16 are the service's
  // own.
  const Bytes before = command(socket, "status").at("cache_bytes");
  const std::string large = asks("tokens=1024");
  CHECK(large.find(fmt::format("its tables take 1024 MiB, and {} MiB of the service's memory are "
                               "left",
                               (before >> 20) - 80 + 16)) != std::string::npos);
  CHECK(asks("tokens=32768").find("admitted") != std::string::npos);  // 2^25
  CHECK(command(socket, "status").at("cache_bytes") == before - (Bytes{16} << 20));
}

TEST_CASE("openers end within their bound, and what they come to later is forgotten") {
  std::atomic<int> posted{0};
  const auto hangs = std::make_shared<std::atomic<bool>>(true);  // it may outlive the test
  {
    service::Openers openers([&](const std::function<void()>&) { ++posted; });
    openers.start(1, 7, [](const sources::StopAsked& stop) -> std::function<void()> {
      while (!stop()) std::this_thread::sleep_for(1ms);
      return [] {};
    });
    // As with a file server that does not answer.
    openers.start(2, std::nullopt, [hangs](const sources::StopAsked&) -> std::function<void()> {
      while (*hangs) std::this_thread::sleep_for(1ms);
      return [] {};
    });
    CHECK(openers.running() == 1);
    CHECK(openers.running(7) == 1);
    CHECK(openers.running(8) == 0);
  }
  *hangs = false;
  CHECK(posted == 0);
}

// ------------------------------------------------------------------------------------- races ----

// A user's folder, and another user's, which is closed to the first. From outside they look alike:
// names, sizes and times. Tars have members that tell them apart.
struct TwoFolders {
  Folder folder;
  std::filesystem::path mine = folder.path() / "mine", secret = folder.path() / "secret";
  service::NodeConfig config = config_in(folder.path());
  TwoFolders() {
    chmod(folder.path().c_str(), 0777);
    for (const auto& [place, word] : {std::pair{mine, "plain"}, std::pair{secret, "theft"}}) {
      std::string tar = tar_member(fmt::format("{}-member.txt", word), "x") + tar_end();
      write_file(place / "tar" / "a.tar", std::as_bytes(std::span(tar)));
      const std::string text = "x";
      for (const char* name : {"class-a", "class-b"})
        write_file(
            place / "classes" / fmt::format("{}-{}", word, name) / fmt::format("{}.jpg", word),
            std::as_bytes(std::span(text)));
      for (const auto& entry : std::filesystem::recursive_directory_iterator(place)) {
        const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
        utimensat(AT_FDCWD, entry.path().c_str(), times, 0);
        chmod(entry.path().c_str(), entry.is_directory() ? 0755 : 0644);
      }
      chmod(place.c_str(), 0755);
    }
    chmod(secret.c_str(), 0700);
    config.open_datasets = true;
    config.brought_kept = Duration(0);
  }

  // As a stranger: how often the secret showed, and 100 if nothing at all was served.
  int attack(int tries) const {
    std::atomic<bool> over{false};
    const std::string link = folder.path() / "link";
    std::thread swaps([&] {
      const std::string beside = link + ".new";
      for (int i = 0; !over; ++i) {
        unlink(beside.c_str());
        if (symlink((i % 2 == 0 ? mine : secret).c_str(), beside.c_str()) == 0)
          rename(beside.c_str(), link.c_str());
        // Long enough to be opened, at most; else as fast as it goes.
        std::this_thread::sleep_for(std::chrono::microseconds(i % 2 == 0 ? i % 16 * 100 : 0));
      }
    });
    int shown = 0, served = 0;
    // Where the link leads to what the user may not open, nothing is asked.
    for (int i = 0, opened = 0; opened < tries && i < 1000 * tries; ++i) {
      ByHand job(config.socket);
      std::string path = link + (i % 2 == 0 ? "/tar" : "/classes");
      if (i % 4 == 2) path += "/a.tar";
      if (!job.ask(path)) continue;
      ++opened;
      std::string heard = job.answer();
      if (heard.find("admitted") != std::string::npos) {
        ++served;
        heard += job.name(false, 0) + job.name(true, 0);
      }
      if (heard.find("theft") != std::string::npos) ++shown;
    }
    over = true;
    swaps.join();
    if (shown > 0) return std::min(shown, 99);
    return served > 0 ? 0 : 100;
  }
};

void attack_as_stranger(int tries) {
  if (geteuid() != 0) {
    skipped("only root can become another user");
    return;
  }
  TwoFolders place;
  EarlyChild stranger([&] {
    if (setgroups(0, nullptr) != 0 || setgid(kStranger) != 0 || setuid(kStranger) != 0) return 101;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // another user's process has lost it
    return place.attack(tries);
  });
  const LiveService service(place.config);
  // The service knows the folder that is closed, and keeps its index.
  for (const char* name : {"tar", "classes"}) {
    ByHand owner(place.config.socket);
    REQUIRE(owner.ask(place.secret / name));
    CHECK(owner.answer().find("admitted") != std::string::npos);
  }
  stranger.begin();
  CHECK(stranger.wait() == 0);
}

TEST_CASE("a link that is swapped while a job joins shows nothing of a closed folder") {
  attack_as_stranger(100);
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE(
      "a link that is swapped while thousands of jobs join shows nothing of a closed folder") {
    attack_as_stranger(4000);
  }
}

}  // namespace batchflow::test::opening_test
