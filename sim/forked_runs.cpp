#include "sim/forked_runs.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "core/base/config_value.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace batchflow::sim {

namespace {

constexpr char kAnswer = 'a';
constexpr char kProblem = 'p';
constexpr char kFailure = 'f';
constexpr char kUnwritten = 'u';

struct Progress {
  std::atomic<bool> begun;
  std::atomic<double> done;
  std::atomic<double> simulated_s;
  std::atomic<std::uint64_t> jobs;
  std::atomic<bool> stop;
};
// Other processes share them.
static_assert(std::atomic<double>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

// Memory that children write and the parent reads.
class SharedProgress {
 public:
  explicit SharedProgress(std::size_t runs)
      : bytes_(std::max<std::size_t>(1, runs) * sizeof(Progress)) {
    void* memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    progress_ = static_cast<Progress*>(memory);
  }
  SharedProgress(const SharedProgress&) = delete;
  ~SharedProgress() { ::munmap(progress_, bytes_); }
  Progress& operator[](std::size_t run) { return progress_[run]; }

 private:
  std::size_t bytes_;
  Progress* progress_;
};

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ::_exit(1);  // the parent does not read it any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A signal from the terminal reaches all processes. The parent says what becomes of it, and a child
// ends with its parent.
void leave_signals_to_parent(pid_t parent) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(1);  // the parent ended first
}

[[noreturn]] void be_child(const ForkedRuns::Work& work, int out, Progress& progress) {
  char kind = kAnswer;
  std::string text;
  try {
    text = work([&](const RunProgress& now) {
      progress.begun.store(true, std::memory_order_relaxed);
      progress.done.store(now.done, std::memory_order_relaxed);
      progress.simulated_s.store(now.simulated_s, std::memory_order_relaxed);
      progress.jobs.store(now.jobs, std::memory_order_relaxed);
      return !progress.stop.load(std::memory_order_relaxed);
    });
  } catch (const ConfigError& error) {
    kind = kProblem;
    text = error.what();
  } catch (const output::OutputError& error) {
    kind = kUnwritten;
    text = error.what();
  } catch (const std::bad_alloc&) {
    kind = kFailure;
    text = "not enough memory";
  } catch (const std::exception& error) {
    kind = kFailure;
    text = error.what();
  }
  std::fflush(stdout);
  write_all(out, {&kind, 1});
  write_all(out, text);
  ::_exit(0);
}

struct Child {
  std::size_t run;
  pid_t pid;
  int in;
  char kind = 0;  // 0: it has sent nothing yet
  std::string text = {};
  bool ended = false;  // by this process, before it had begun
};

Child start(const std::vector<ForkedRuns::Work>& works, std::size_t run, Progress& progress) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error(std::strerror(errno));
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (pid == 0) {
    ::close(ends[0]);
    leave_signals_to_parent(parent);
    be_child(works[run], ends[1], progress);
  }
  ::close(ends[1]);
  return {run, pid, ends[0]};
}

// True: it has sent all that it will send.
bool read_some(Child& child) {
  char buffer[65536];
  const bool begins = child.kind == 0;
  const ssize_t got = ::read(child.in, begins ? &child.kind : buffer, begins ? 1 : sizeof buffer);
  if (got > 0 && !begins) child.text.append(buffer, static_cast<std::size_t>(got));
  return got == 0 || (got < 0 && errno != EINTR);
}

ForkedRuns::Outcome finish(Child& child) {
  ::close(child.in);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ForkedRuns::Outcome outcome;
  if (child.ended) return outcome;
  if (WIFSIGNALED(status)) {
    outcome.failure = fmt::format("its process was ended by signal {}", WTERMSIG(status));
  } else if (child.kind == 0) {
    outcome.failure = fmt::format("its process ended with code {}", WEXITSTATUS(status));
  } else {
    outcome.done = child.kind == kAnswer;
    (child.kind == kAnswer      ? outcome.text
     : child.kind == kProblem   ? outcome.problem
     : child.kind == kUnwritten ? outcome.unwritten
                                : outcome.failure) = std::move(child.text);
  }
  return outcome;
}

// The children of this call; they end with it, whatever happens.
class Children {
 public:
  ~Children() {
    for (Child& child : running_) {
      ::kill(child.pid, SIGKILL);
      finish(child);
    }
  }
  std::vector<Child>& running() { return running_; }

 private:
  std::vector<Child> running_;
};

}  // namespace

std::vector<ForkedRuns::Outcome> ForkedRuns::run(
    const std::vector<Work>& works, unsigned at_once,
    const std::function<void(const RunProgress&)>& shown, const Finished& finished,
    const std::function<bool()>& goes_on) {
  std::vector<Outcome> outcomes(works.size());
  SharedProgress progress(works.size());
  Children children;
  std::vector<Child>& running = children.running();
  std::size_t next = 0;
  bool interrupted = false;
  while (next < works.size() || !running.empty()) {
    while (!interrupted && next < works.size() && running.size() < std::max(1u, at_once)) {
      running.push_back(start(works, next, progress[next]));
      ++next;
    }
    std::vector<pollfd> polled;
    for (const Child& child : running) polled.push_back({child.in, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 100);
    for (std::size_t i = running.size(); i-- > 0;) {
      if (polled[i].revents == 0 || !read_some(running[i])) continue;
      progress[running[i].run].done.store(1);
      const std::size_t work = running[i].run;
      outcomes[work] = finish(running[i]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      if (finished) finished(work, outcomes[work]);
    }
    RunProgress all;
    for (std::size_t i = 0; i < works.size(); ++i) {
      all.done += progress[i].done.load() / static_cast<double>(works.size());
      all.jobs += progress[i].jobs.load();
    }
    // Children that have ended need no signal.
    for (const Child& child : running)
      all.simulated_s = std::max(all.simulated_s, progress[child.run].simulated_s.load());
    shown(all);
    if (!interrupted && (output::was_interrupted() || (goes_on && !goes_on()))) {
      interrupted = true;
      next = works.size();
      for (std::size_t i = 0; i < works.size(); ++i) progress[i].stop.store(true);
      for (Child& child : running) {
        if (progress[child.run].begun.load()) continue;
        child.ended = true;
        ::kill(child.pid, SIGKILL);
      }
    }
  }
  return outcomes;
}

}  // namespace batchflow::sim
