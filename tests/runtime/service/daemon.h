// batchflowd as a process of its own, which can be killed.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "runtime/protocol/channel.h"

namespace batchflow::test {

class Daemon {
 public:
  // `arguments` beside the program's name. It listens at `socket` when this returns.
  Daemon(std::vector<std::string> arguments, const std::string& socket)
      : arguments_(std::move(arguments)) {
    start();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string problem;
    while (!Channel::connect(socket, problem).is_open()) {
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Daemon() { kill(SIGKILL); }

  void start() {
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive a test that crashes
    std::vector<char*> words;
    std::string program = BATCHFLOWD;
    words.push_back(program.data());
    for (std::string& one : arguments_) words.push_back(one.data());
    words.push_back(nullptr);
    if (!freopen("/dev/null", "w", stderr)) _exit(126);
    execv(words[0], words.data());
    _exit(127);
  }
  // Its exit code, or minus the signal that ended it.
  int kill(int signal) {
    if (process_ <= 0) return 0;
    ::kill(process_, signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  pid_t process() const { return process_; }

 private:
  std::vector<std::string> arguments_;
  pid_t process_ = -1;
};

}  // namespace batchflow::test
