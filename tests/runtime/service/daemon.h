// batchflowd as a process of its own, which can be killed.
#pragma once

#include <fcntl.h>
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
  // `arguments` follow the program's name; `before` are the words of a program that runs it in its
  // own place. It listens at `socket` when this returns.
  Daemon(std::vector<std::string> arguments, const std::string& socket,
         std::vector<std::string> before = {})
      : words_(std::move(before)) {
    words_.emplace_back(BATCHFLOWD);
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    start();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string problem;
    while (!protocol::Channel::connect(socket, problem).is_open()) {
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Daemon() { kill(SIGKILL); }

  void start() {
    std::vector<char*> words;
    for (std::string& one : words_) words.push_back(one.data());
    words.push_back(nullptr);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {                 // where nothing may be allocated: a job may run beside
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive a test that crashes
      dup2(nowhere, STDERR_FILENO);
      execvp(words[0], words.data());
      _exit(127);
    }
    close(nowhere);
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
  std::vector<std::string> words_;
  pid_t process_ = -1;
};

}  // namespace batchflow::test
