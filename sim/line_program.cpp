#include "sim/line_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/config_value.h"

namespace batchflow::sim {

LineProgram::LineProgram(std::vector<std::string> words)
    : name_(fmt::format("{}", fmt::join(words, " "))) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int to[2] = {-1, -1};
  int from[2] = {-1, -1};
  int problem = ::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0 ? errno : 0;
  if (problem == 0) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t ignored;  // by this program
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    problem =
        ::posix_spawnp(&process_, arguments[0], &files, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }
  for (const int end : {to[0], from[1]})
    if (end >= 0) ::close(end);
  in_ = to[1];
  out_ = from[0];
  if (problem == 0) return;
  close();
  throw ConfigError(fmt::format("{}: cannot be started: {}", name_, std::strerror(problem)));
}

LineProgram::~LineProgram() {
  close();
  if (process_ <= 0) return;
  ::kill(-process_, SIGKILL);
  wait();
}

void LineProgram::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(in_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // it has ended, and its exit code will tell why
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void LineProgram::end_input() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
}

bool LineProgram::read(const std::function<void(const std::string&)>& take) {
  pollfd polled{out_, POLLIN, 0};
  if (::poll(&polled, 1, 100) <= 0) return true;
  char buffer[65536];
  const ssize_t got = ::read(out_, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  std::string_view more(buffer, static_cast<std::size_t>(got));
  for (std::size_t end; (end = more.find('\n')) != std::string_view::npos;) {
    line_ += more.substr(0, end);
    more.remove_prefix(end + 1);
    take(std::exchange(line_, {}));
  }
  line_ += more;
  return true;
}

std::string LineProgram::wait() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with code {}", WEXITSTATUS(status));
}

void LineProgram::close() {
  end_input();
  if (out_ >= 0) ::close(out_);
  out_ = -1;
}

}  // namespace batchflow::sim
