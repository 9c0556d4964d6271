#include "sim/plugin_check/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "sim/plugin_check/confine.h"

namespace batchflow::sim {
namespace {

constexpr std::size_t kAnswerMost = std::size_t{16} << 20;
constexpr rlim_t kMemoryMost = rlim_t{4} << 30;

void limit(int resource, rlim_t most) {
  const rlimit value{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &value);
}

[[noreturn]] void become_phase(const PhaseOptions& options, int report, std::chrono::seconds most,
                               int variation) {
  setpgid(0, 0);  // so that whatever it starts is ended with it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // What reports and memory are read by stand at fixed numbers; nothing else is left open.
  const int memory = open("/proc/self/statm", O_RDONLY);
  const int nowhere = open("/dev/null", O_RDWR);
  const int high = fcntl(report, F_DUPFD, 100), high_memory = fcntl(memory, F_DUPFD, 100);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  dup2(high, kReportDescriptor);
  // Of its own process once it has become the program: the kernel looks it up when it is read.
  dup2(high_memory, kMemoryDescriptor);
  close_range(kMemoryDescriptor + 1, ~0u, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(most.count()));
  if (options.phase != "battery") limit(RLIMIT_DATA, kMemoryMost);
  if (variation != 0) {
    setenv("TZ", "Asia/Kathmandu", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("BATCHFLOW_VARIATION", std::string(1000, 'x').c_str(), 1);
  }
  const std::string seeds = std::to_string(options.seeds);
  const std::array<const char*, 6> words = {"batchflow-sim",       "plugin-phase",
                                            options.phase.c_str(), options.plugin.c_str(),
                                            seeds.c_str(),         nullptr};
  execv("/proc/self/exe", const_cast<char* const*>(words.data()));
  _exit(127);
}

}  // namespace

PhaseProcess::PhaseProcess(const PhaseOptions& options, std::chrono::seconds most, int variation)
    : most_(most) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("no process can be begun: {}", std::strerror(errno)));
  process_ = fork();
  if (process_ == 0) become_phase(options, ends[1], most, variation);
  close(ends[1]);
  report_ = ends[0];
  if (process_ < 0)
    throw std::runtime_error(fmt::format("no process can be begun: {}", std::strerror(errno)));
  setpgid(process_, process_);
}

PhaseProcess::~PhaseProcess() {
  if (report_ >= 0) close(report_);
  if (process_ <= 0) return;
  kill(-process_, SIGKILL);
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

PhaseResult PhaseProcess::wait() {
  PhaseResult result;
  std::vector<char> bytes(1 << 16);
  bool in_time = true;
  while (result.answer.size() < kAnswerMost) {
    output::check_interrupted();
    if (std::chrono::steady_clock::now() - begun_ > most_ * 2) {
      in_time = false;
      break;
    }
    pollfd readable{report_, POLLIN, 0};
    const int ready = poll(&readable, 1, 200);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ready < 0 ? -1 : read(report_, bytes.data(), bytes.size());
    if (got <= 0) break;
    result.answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  kill(-process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (!in_time || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) {
    result.problem = fmt::format("it does not come to an end: {} s were not enough", most_.count());
  } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    result.problem =
        fmt::format("it crashes (signal {}, {})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (result.answer.empty()) {
    result.problem = "it ends the process";
  }
  return result;
}

}  // namespace batchflow::sim
