// A child process that is made before the test has other threads, and does its work when it is
// told to. A child of a process with threads may find a lock of the allocator held for ever: the
// sanitizers' allocators do not look after theirs. Threads that tests before this one have detached
// are waited for.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "doctest/doctest.h"

namespace batchflow::test {

class EarlyChild {
 public:
  // `work` returns the exit code.
  template <class Work>
  explicit EarlyChild(Work work) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    REQUIRE(is_alone());
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[1]);
      char go = 0;
      _exit(read(ends[0], &go, 1) == 1 ? work() : 98);
    }
    close(ends[0]);
    begin_ = ends[1];
  }
  EarlyChild(EarlyChild&& other) noexcept
      : process_(std::exchange(other.process_, -1)), begin_(std::exchange(other.begin_, -1)) {}
  EarlyChild(const EarlyChild&) = delete;
  ~EarlyChild() { kill(SIGKILL); }

  void begin() const { REQUIRE(write(begin_, "g", 1) == 1); }
  // Its exit code, or minus the signal that ended it.
  int wait() { return kill(0); }
  int kill(int signal) {
    if (process_ <= 0) return 0;
    ::kill(process_, signal);
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    close(begin_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
#ifdef __SANITIZE_THREAD__
  static constexpr std::ptrdiff_t kThreadsAlone = 2;  // one is the sanitizer's own
#else
  static constexpr std::ptrdiff_t kThreadsAlone = 1;
#endif
  // Waits until all others have ended.
  static bool is_alone() {
    const auto threads = [] {
      const std::filesystem::directory_iterator all("/proc/self/task");
      return std::distance(std::filesystem::begin(all), std::filesystem::end(all));
    };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (threads() > kThreadsAlone) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  pid_t process_ = -1;
  int begin_ = -1;
};

}  // namespace batchflow::test
