// batchflowctl as a process of its own: words in; exit code, output and errors out.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace batchflow::test {

struct Outcome {
  int code = -1;  // 1000 + N: killed by signal N
  std::string out;
  std::string err;
};

class Program {
 public:
  // Begins; its streams go to files in `folder`.
  Program(const std::vector<std::string>& words, std::filesystem::path folder)
      : folder_(std::move(folder)) {
    std::vector<char*> arguments = {const_cast<char*>(BATCHFLOWCTL)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int out = stream("out");
    const int err = stream("err");
    process_ = fork();
    if (process_ == 0) {  // where nothing may be allocated: a service may run beside
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      execv(BATCHFLOWCTL, arguments.data());
      _exit(126);
    }
    close(out);
    close(err);
  }
  pid_t process() const { return process_; }
  Outcome finish() {
    int status = 0;
    waitpid(process_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status),
            content(folder_ / "ctl.out"), content(folder_ / "ctl.err")};
  }

 private:
  int stream(const char* name) const {
    const std::filesystem::path path = folder_ / ("ctl." + std::string(name));
    return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
  pid_t process_ = -1;
};

inline Outcome run_ctl(const std::vector<std::string>& words, const std::filesystem::path& folder) {
  return Program(words, folder).finish();
}

}  // namespace batchflow::test
