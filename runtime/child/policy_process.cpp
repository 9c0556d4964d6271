#include "runtime/child/policy_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/config_value.h"
#include "runtime/protocol/own_group.h"
#include "runtime/protocol/ring.h"

namespace batchflow::child {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerMost{100};
constexpr std::chrono::seconds kStartMost{10};
// The service looks for an answer for so long before it sleeps: as long as most take.
constexpr microseconds kLookFor{60};
// Between looks at the process. A service that was itself stopped meanwhile has waited no longer.
constexpr milliseconds kSlice{5};
// A process that has used so much of the processor while it was waited for had its chance.
constexpr double kProcessorLeast_s = 0.02;
// Of all long waits of a second together.
constexpr milliseconds kLongWait{1};
constexpr milliseconds kSlowMost{100};
// Of a question, for its author.
constexpr std::size_t kQuestionShown = 4096;
// Above the descriptors of the process, so that none is lost when they are moved to their numbers.
constexpr int kAboveOthers = 16;

double processor_s(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// As /proc tells it: R, S, D, T, ...
char state_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

std::string ending_of(int status) {
  if (WIFEXITED(status))
    return fmt::format("its process ended (exit code {})", WEXITSTATUS(status));
  return fmt::format("its process crashed (signal {}, {})", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 500));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

// Those that were killed, and have not been waited for.
std::mutex ending_mutex;
std::vector<pid_t>& ending() {
  static std::vector<pid_t> all;
  return all;
}

// How long the process was ready to run, and did not; or this thread, which is to see its answers.
std::chrono::nanoseconds without_processor(pid_t process) {
  std::int64_t all = 0;
  for (const std::string& name : {std::to_string(process), std::string("thread-self")}) {
    std::ifstream file(fmt::format("/proc/{}/schedstat", name));
    std::int64_t ran = 0, waited = 0;
    file >> ran >> waited;
    all += waited;
  }
  return std::chrono::nanoseconds(all);
}

}  // namespace

// How long is waited. Time in which this process was stopped does not count.
class PolicyProcess::Patience {
 public:
  Patience(PolicyProcess& peer, Clock::duration most) : peer_(peer), most_(most) {}

  // Called between short waits. False: it was long enough, or the process has ended.
  bool lasts() {
    int status = 0;
    if (waitpid(peer_.process_, &status, WNOHANG) == peer_.process_) {
      peer_.process_ = -1;
      peer_.fail(End::crashed, ending_of(status));
      return false;
    }
    note();
    if (processor_s_ < 0) processor_s_ = processor_s(peer_.process_);
    if (waited_ < most_) return true;
    const double used_s = processor_s(peer_.process_) - processor_s_;
    const char state = state_of(peer_.process_);
    if (state == 'T' || state == 't') {
      peer_.fail(End::lost, "its process was stopped");
    } else if (state == 'D') {
      peer_.fail(End::lost, "its process waited for storage");
    } else if (state == 'R' && used_s < kProcessorLeast_s) {
      peer_.fail(End::lost, "its process got no processor");
    } else {
      peer_.fail(End::hung, fmt::format("it did not answer within {} ms",
                                        std::chrono::duration_cast<milliseconds>(most_).count()));
    }
    return false;
  }
  // Since this was made.
  Clock::duration waited() {
    note();
    return waited_;
  }

 private:
  void note() {
    const Clock::time_point now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_, 2 * kSlice);
    last_ = now;
  }

  PolicyProcess& peer_;
  const Clock::duration most_;
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{};
  double processor_s_ = -1;
};

PolicyProcess::PolicyProcess(const plugin::PluginFile& file) {
  make_areas();
  spawn(file);
}

// --------------------------------------------------------------------------------- its life ----

std::vector<std::byte> PolicyProcess::begin() {
  Patience patience(*this, kStartMost);
  const auto found = wait_for_answer(patience) ? answer() : std::nullopt;
  if (!found) throw ConfigError(failure_->why);
  return {found->begin(), found->end()};
}

void PolicyProcess::make_areas() {
  std::string problem;
  calls_ = {};
  answers_ = {};
  const auto make = [&](const char* name, Bytes bytes, bool read_only, protocol::Mapping& mapping) {
    protocol::Descriptor file = protocol::make_memory_file(name, bytes, problem);
    if (file) mapping = protocol::Mapping::map_file(file, bytes, true, problem);
    if (!mapping || !protocol::seal(file, read_only, problem)) throw ConfigError(problem);
    return protocol::Descriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, kAboveOthers));
  };
  calls_file_ = make("batchflow-policy-calls", kHeadBytes + kCallBytes, true, calls_);
  answers_file_ = make("batchflow-policy-answers", kHeadBytes + kAnswerBytes, false, answers_);
}

void PolicyProcess::spawn(const plugin::PluginFile& file) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() /
                              "batchflow-policy-child";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw ConfigError(fmt::format("no pipe for its process: {}", std::strerror(errno)));
  lives_ = protocol::Descriptor(ends[1]);
  const protocol::Descriptor low(ends[0]);
  const protocol::Descriptor other(fcntl(low.get(), F_DUPFD_CLOEXEC, kAboveOthers));
  const protocol::Descriptor plugin(file.duplicate(kAboveOthers));
  if (!other || !plugin || !calls_file_ || !answers_file_)
    throw ConfigError(fmt::format("no file for its process: {}", std::strerror(errno)));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, plugin.get(), kPluginFile);
  posix_spawn_file_actions_adddup2(&files, calls_file_.get(), kCallsFile);
  posix_spawn_file_actions_adddup2(&files, answers_file_.get(), kAnswersFile);
  posix_spawn_file_actions_adddup2(&files, other.get(), kServiceLives);
  const protocol::OwnGroup attributes;
  std::string name = file.footer().name, parent = std::to_string(getpid()), path = program;
  std::array<char*, 4> words{path.data(), name.data(), parent.data(), nullptr};
  std::array<char*, 1> variables{nullptr};
  const int failed = posix_spawn(&process_, program.c_str(), &files, attributes.get(), words.data(),
                                 variables.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed == 0) return;
  process_ = -1;
  throw ConfigError(fmt::format("{} cannot be started: {}", program, std::strerror(failed)));
}

void PolicyProcess::end() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  {
    const std::lock_guard lock(ending_mutex);
    ending().push_back(process_);
  }
  process_ = -1;
  reap();
}

void PolicyProcess::reap() {
  const std::lock_guard lock(ending_mutex);
  std::erase_if(ending(), [](pid_t one) { return waitpid(one, nullptr, WNOHANG) != 0; });
}

void PolicyProcess::fail(End how, std::string why) {
  if (!failure_) failure_ = Failure{how, std::move(why)};
  end();
}

// ------------------------------------------------------------------------------------ calls ----

void PolicyProcess::wake() {
  if (answers().sleeps.load() == 0) return;
  calls().wakes.fetch_add(1);
  protocol::futex_wake(&calls().wakes);
}

bool PolicyProcess::make_room(std::size_t bytes, Patience& patience) {
  for (;;) {
    const std::uint64_t read = answers().read.load(std::memory_order_acquire);
    if (read < read_ || read > written_) {
      fail(End::failed, "its process broke the protocol");
      return false;
    }
    read_ = read;
    if (written_ + bytes - read_ <= kCallBytes) return true;
    wake();
    std::this_thread::sleep_for(microseconds(200));
    if (!patience.lasts()) return false;
  }
}

// False: it has failed.
bool PolicyProcess::put(std::span<const std::byte> call, bool answered) {
  const std::size_t bytes = frame_bytes(call.size());
  if (bytes > kCallBytes / 2) {
    fail(End::lost, "it would be shown more than 2 MiB at once");
    return false;
  }
  std::size_t at = written_ % kCallBytes;
  const std::size_t left = kCallBytes - at;
  const std::size_t skipped = bytes > left ? left : 0;
  if (written_ + bytes + skipped - read_ > kCallBytes) {
    Patience patience(*this, kAnswerMost);
    const bool room = make_room(bytes + skipped, patience);
    count(patience.waited());
    if (!room || failure_) return false;
  }
  if (skipped > 0) {
    const CallFrame wraps{0, kWraps};
    std::memcpy(ring() + at, &wraps, sizeof(wraps));
    at = 0;
  }
  const CallFrame frame{static_cast<std::uint32_t>(call.size()), answered ? 1u : 0u};
  std::memcpy(ring() + at, &frame, sizeof(frame));
  std::memcpy(ring() + at + sizeof(frame), call.data(), call.size());
  written_ += bytes + skipped;
  calls().written.store(written_);
  return true;
}

void PolicyProcess::tell(std::span<const std::byte> call) {
  if (!failure_ && put(call, false)) wake();
}

std::optional<std::span<const std::byte>> PolicyProcess::ask(std::span<const std::byte> call) {
  std::optional<std::span<const std::byte>> found;
  if (!failure_) {
    const auto begin = call.first(std::min(call.size(), kQuestionShown));
    last_question_.assign(begin.begin(), begin.end());
  }
  if (!failure_ && put(call, true)) {
    ++asked_;
    wake();
    Patience patience(*this, kAnswerMost);
    if (wait_for_answer(patience)) found = answer();
    count(patience.waited());
  }
  return found;
}

// Long waits of a second count together, but for the time in which there was no processor since the
// long wait before.
void PolicyProcess::count(std::chrono::nanoseconds waited) {
  if (waited < kLongWait || failure_) return;
  const auto now = Clock::now().time_since_epoch();
  if (now - slow_since_ > std::chrono::seconds(1)) {
    slow_since_ = now;
    slow_ = {};
  }
  const std::chrono::nanoseconds before = std::exchange(starved_, without_processor(process_));
  slow_ += std::max(waited - (starved_ - before), std::chrono::nanoseconds(0));
  if (slow_ > kSlowMost)
    fail(End::hung,
         fmt::format("it was waited for for more than {} ms of a second", kSlowMost.count()));
}

bool PolicyProcess::wait_for_answer(Patience& patience) {
  const auto answered = [&] {
    return answers().answered.load(std::memory_order_acquire) == asked_;
  };
  const auto until = Clock::now() + kLookFor;
  do {
    for (int i = 0; i < 32; ++i) {
      if (answered()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (Clock::now() < until);
  calls().waits.store(1);
  bool there = false;
  while (!(there = answered())) {
    const std::uint32_t before = answers().answered.load();
    if (before != asked_) {
      protocol::futex_wait(answers().answered, before,
                           static_cast<std::uint64_t>(std::chrono::nanoseconds(kSlice).count()));
    }
    if ((there = answered()) || !patience.lasts()) break;
  }
  calls().waits.store(0);
  return there;
}

// REQUIRES: there is one
std::optional<std::span<const std::byte>> PolicyProcess::answer() {
  const std::uint32_t bytes = answers().bytes.load();
  const bool failed = answers().failed.load() != 0;
  if (bytes > kAnswerBytes) {
    fail(End::failed, "its process broke the protocol");
    return std::nullopt;
  }
  // It could still change what stands there.
  const std::byte* const from = answers_.memory().data() + kHeadBytes;
  answer_.assign(from, from + bytes);
  if (!failed) return answer_;
  fail(End::failed, printable({reinterpret_cast<const char*>(answer_.data()), answer_.size()}));
  return std::nullopt;
}

}  // namespace batchflow::child
