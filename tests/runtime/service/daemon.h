// batchflowd as a process of its own, which can be killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::test {

class Daemon {
 public:
  // `arguments` beside the program's name.
  explicit Daemon(std::vector<std::string> arguments) : arguments_(std::move(arguments)) { start(); }
  ~Daemon() { kill(SIGKILL); }

  void start() {
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ > 0) return;
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
