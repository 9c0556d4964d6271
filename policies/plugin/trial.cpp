// Loads a plugin in a child process first: what it does there hurts nothing here.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/base/config_value.h"
#include "policies/plugin/load.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace batchflow::plugin {
namespace {

constexpr std::chrono::seconds kTrialMost{10};
constexpr std::size_t kReportMost = 4096;

// What a plugin must leave as it is.
struct Surroundings {
  std::map<int, std::string> handlers;
  std::string locale;
  std::string folder;
  std::size_t threads = 0;
  unsigned rounding = 0;

  static Surroundings now() {
    Surroundings found;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction handler;
      if (sigaction(number, nullptr, &handler) != 0) continue;
      found.handlers[number] = {reinterpret_cast<const char*>(&handler.sa_sigaction),
                                sizeof(handler.sa_sigaction)};
    }
    const char* const name = std::setlocale(LC_ALL, nullptr);
    found.locale = name != nullptr ? name : "";
    std::error_code failed;
    found.folder = std::filesystem::current_path(failed).string();
    for (std::filesystem::directory_iterator at("/proc/self/task", failed), end;
         !failed && at != end; at.increment(failed)) {
      ++found.threads;
    }
    found.rounding = static_cast<unsigned>(std::fegetround());
#if defined(__x86_64__)
    found.rounding |= _mm_getcsr() & ~0x3fu;  // without the flags of what has happened
#endif
    return found;
  }
};

// What has changed; empty: nothing.
std::string difference(const Surroundings& before, const Surroundings& after) {
  for (const auto& [number, handler] : before.handlers) {
    const auto now = after.handlers.find(number);
    if (now == after.handlers.end() || now->second != handler)
      return fmt::format("it changes the handler of signal {} ({})", number, strsignal(number));
  }
  if (after.locale != before.locale)
    return fmt::format("it changes the locale from {} to {}", before.locale, after.locale);
  if (after.folder != before.folder) return "it changes the current folder";
  if (after.threads != before.threads) return "it starts threads";
  if (after.rounding != before.rounding)
    return "it changes how numbers are rounded (build it without -ffast-math)";
  return "";
}

void make_each(const Plugin& plugin) {
  for (const engine::PolicyEntry* entry : plugin.policies()) {
    const engine::PolicyChoice choice{entry, Parameters(entry->parameters)};
    switch (entry->kind()) {
      case engine::PolicyKind::allocation:
        choice.make<engine::MakeAllocation>(Random(1));
        break;
      case engine::PolicyKind::eviction:
        choice.make_eviction(100, 10, Random(1));
        break;
      case engine::PolicyKind::selection:
        choice.make<engine::MakeSelection>(Random(1));
        break;
      case engine::PolicyKind::dispatch:
        choice.make<engine::MakeDispatch>(Random(1));
        break;
      case engine::PolicyKind::scaling:
        choice.make<engine::MakeScaling>(Random(1));
        break;
      case engine::PolicyKind::rehearsal:
        choice.make_rehearsal(10);
        break;
      case engine::PolicyKind::mixture:
        choice.make_mixture(2);
        break;
    }
    for (const Failure& failure : take_failures())
      throw ConfigError(fmt::format("{}: {}", failure.policy, failure.why));
  }
}

// Of the child: what is wrong, or nothing.
std::string trial(const std::shared_ptr<const PluginFile>& file) {
  try {
    const Surroundings before = Surroundings::now();
    const Plugin plugin(file);
    make_each(plugin);
    return difference(before, Surroundings::now());
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return fmt::format("it threw while it was loaded: {}", error.what());
  } catch (...) {
    return "an exception left it while it was loaded";
  }
}

[[noreturn]] void run_child(const std::shared_ptr<const PluginFile>& file, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // What the plugin prints is not part of the program's output.
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM})
    std::signal(signal, SIG_DFL);
  // A byte first, so that a child that ends by itself is not taken for one that found nothing.
  const std::string said = "." + trial(file).substr(0, kReportMost - 1);
  if (write(report, said.data(), said.size()) < 0) _exit(1);
  _exit(0);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void try_to_load(const std::shared_ptr<const PluginFile>& file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw ConfigError(fmt::format("it cannot be tried: {}", std::strerror(errno)));
  const pid_t child = fork();
  if (child == 0) run_child(file, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw ConfigError(fmt::format("it cannot be tried: {}", std::strerror(errno)));
  }
  std::string said;
  const auto end = std::chrono::steady_clock::now() + kTrialMost;
  bool in_time = true;
  for (char bytes[kReportMost];;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd readable{ends[0], POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      in_time = false;
      break;
    }
    const ssize_t got = read(ends[0], bytes, sizeof(bytes));
    if (got <= 0) break;
    said.append(bytes, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  kill(child, SIGKILL);  // it may have threads, or not end
  const int status = wait_for(child);
  if (!in_time) {
    throw ConfigError(fmt::format("it did not come to an end within {} s while it was loaded",
                                  kTrialMost.count()));
  }
  if (said.empty() && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    throw ConfigError(fmt::format("it crashed while it was loaded (signal {}, {})",
                                  WTERMSIG(status), strsignal(WTERMSIG(status))));
  }
  if (said.empty()) throw ConfigError("it ended the process while it was loaded");
  if (said.size() > 1) throw ConfigError(said.substr(1));
}

}  // namespace batchflow::plugin
