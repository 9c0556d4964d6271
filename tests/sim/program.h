// Runs the real program as a user's shell would: words, standard streams, signals.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace batchflow::test {

struct Outcome {
  int code = -1;  // 1000 + N: killed by signal N
  std::string out;
  std::string err;
};

class Folder : public TemporaryFolder {
 public:
  std::string name(const std::string& file) const { return (*this / file).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path()), {}));
  }
};

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Called in the child before the program begins, with its streams already in place.
using Prepare = std::function<void()>;

// Standard output and error go to the files `out` and `err` of `folder`.
inline pid_t start(const std::vector<std::string>& words, const Folder& folder,
                   const Prepare& prepare = {}) {
  const pid_t child = fork();
  if (child != 0) return child;
  const auto redirect = [&](const char* name, int descriptor) {
    dup2(open((folder.path() / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
         descriptor);
  };
  redirect("out", 1);
  redirect("err", 2);
  // The test framework's signal handlers end with exec, but until then they look like the program's
  // own.
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) signal(one, SIG_DFL);
  if (prepare) prepare();
  std::vector<char*> arguments = {const_cast<char*>(BATCHFLOW_SIM)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(BATCHFLOW_SIM, arguments.data());
  _exit(126);
}

inline Outcome finish(pid_t child, const Folder& folder) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status),
          content(folder.path() / "out"), content(folder.path() / "err")};
}

inline Outcome run(const std::vector<std::string>& words, const Prepare& prepare = {}) {
  const Folder folder;
  return finish(start(words, folder, prepare), folder);
}

// Waits until the program has begun and handles `signal`.
inline void wait_until_it_handles(pid_t child, int signal) {
  const std::string folder = "/proc/" + std::to_string(child);
  for (;;) {
    const std::string status = content(folder + "/status");
    const std::size_t mask = status.find("SigCgt:");
    const bool begun = content(folder + "/comm").starts_with("batchflow-sim");
    if (begun && mask != std::string::npos &&
        (std::stoull(status.substr(mask + 7), nullptr, 16) >> (signal - 1) & 1) != 0) {
      return;
    }
    usleep(1000);
  }
}

// Nothing on standard output, one line on standard error, exit code 2.
inline void check_refused(const std::vector<std::string>& words, const std::string& part) {
  const Outcome outcome = run(words);
  CAPTURE(part);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.find(part) != std::string::npos);
}

inline const std::string kSmall = "gen:perm,n=200,epochs=5";

}  // namespace batchflow::test
