#include "runtime/service/plugins/hang_guard.h"

#include <execinfo.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>

#include "policies/plugin/load.h"
#include "runtime/service/plugins/quarantine.h"

namespace batchflow::service {
namespace {

constexpr std::chrono::milliseconds kLookEvery{50};
constexpr double kProcessorMost_s = 0.1;
constexpr int kLooksMost = 20;  // of one step that uses no processor: a second
constexpr int kFramesMost = 64;
// Of the thread that is watched. Real-time signals have no other use here.
const int kWhere = SIGRTMIN + 3;

char** command_line = nullptr;
std::array<char, 4096> program{};  // its file, by which it is known to `ps`
int quarantine_file = -1;
std::array<char, 3072> state_folder{};
const engine::Engine* watched_engine = nullptr;
const LastEvents* last_events = nullptr;
engine::Question last_question;
bool was_asked = false;
pthread_t watched_thread;
std::atomic<const plugin::Plugin*> found_in{nullptr};
std::atomic<bool> answered{false};

// A signal handler calls it.
const plugin::Plugin* plugin_on_stack() {
  std::array<void*, kFramesMost> frames;
  const int count = backtrace(frames.data(), kFramesMost);
  for (int i = 0; i < count; ++i) {
    if (const plugin::Plugin* one = plugin::holding(frames[static_cast<std::size_t>(i)]))
      return one;
  }
  return nullptr;
}

int new_file(const plugin::Plugin& plugin, const char* ending) {
  std::array<char, 4096> name{};
  const auto put = [&](const char* text, std::size_t most) {
    std::strncat(name.data(), text, std::min(most, name.size() - std::strlen(name.data()) - 1));
  };
  put(state_folder.data(), state_folder.size());
  put("/plugin-exit-", 100);
  put(plugin.hash_text(), plugin::kShortHash);
  put(ending, 100);
  return open(name.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

void write_all(int to, const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t written = write(to, at, bytes);
    if (written <= 0) return;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

// What it was asked, and the last events as bytes. Only what a signal handler may do.
void leave_files(const plugin::Plugin& plugin, PluginExit exit, const char* why) {
  const char digit = static_cast<char>('0' + static_cast<int>(exit));
  const int text = new_file(plugin, ".txt");
  const auto say = [&](const char* what) { write_all(text, what, std::strlen(what)); };
  say("plugin ");
  say(plugin.hash_text());
  say("\nexit ");
  write_all(text, &digit, 1);
  say(": ");
  say(why);
  say("\n\nit was asked last\n");
  if (was_asked) {
    write_all(text, last_question.scope.name.data(), last_question.scope.name.size());
    say(": ");
    write_all(text, last_question.text.data(), last_question.text.size());
  } else {
    say("nothing that is known");
  }
  say("\n");
  close(text);
  const int events = new_file(plugin, ".events");
  for (const std::span<const std::byte> half : {last_events->older(), last_events->newer()})
    write_all(events, half.data(), half.size());
  close(events);
}

// Writes the line of the plugin, and begins the program anew. Only what a signal handler may do.
[[noreturn]] void quarantine_and_restart(const plugin::Plugin& plugin, PluginExit exit,
                                         const char* why) {
  const auto say = [](int to, const char* text) {
    if (write(to, text, std::strlen(text)) < 0) return;
  };
  const char number[] = {' ', static_cast<char>('0' + static_cast<int>(exit)), ' ', '\0'};
  say(quarantine_file, plugin.hash_text());
  say(quarantine_file, number);
  say(quarantine_file, why);
  say(quarantine_file, "\n");
  fsync(quarantine_file);
  leave_files(plugin, exit, why);
  say(STDERR_FILENO, "batchflowd: a plugin ");
  say(STDERR_FILENO, exit == PluginExit::hung ? "did not come back" : "crashed");
  say(STDERR_FILENO, "; it is quarantined, and the service begins anew: ");
  say(STDERR_FILENO, plugin.hash_text());
  say(STDERR_FILENO, "\n");
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  // Sockets that stayed open would go on listening, and no client would find the new start.
  close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  if (command_line != nullptr) {
    execv(program.data(), command_line);
    execv("/proc/self/exe", command_line);
  }
  _exit(70);
}

void say_where(int) {
  const plugin::Plugin* const found = plugin_on_stack();
  // Here, since the call is not over: what it was asked is there.
  if (found != nullptr) was_asked = watched_engine->question(last_question);
  found_in.store(found);
  answered.store(true);
}

void crashed(int signal, siginfo_t*, void*) {
  // A second fault in this handler ends the process.
  std::signal(signal, SIG_DFL);
  if (pthread_equal(pthread_self(), watched_thread)) {
    if (const plugin::Plugin* one = plugin_on_stack()) {
      was_asked = watched_engine->question(last_question);
      quarantine_and_restart(*one, PluginExit::crashed, strsignal(signal));
    }
  }
  // No plugin's fault: it faults again.
  if (signal == SIGABRT) raise(signal);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(signal, &action, nullptr);
}

// A stack that has run over needs another one for the handler.
void use_another_stack() {
  static std::array<char, 1 << 16> stack;
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
}

double processor_s(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

void remember_command_line(char** arguments) {
  command_line = arguments;
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) < 0) program[0] = '\0';
}

HangGuard::HangGuard(int quarantine, const std::filesystem::path& state,
                     const engine::Engine& engine, const LastEvents& events) {
  quarantine_file = quarantine;
  std::strncpy(state_folder.data(), state.c_str(), state_folder.size() - 1);
  watched_engine = &engine;
  last_events = &events;
  watched_thread = pthread_self();
  // The first backtrace loads a library, which a signal handler must not.
  std::array<void*, 2> frames;
  backtrace(frames.data(), 2);
  use_another_stack();
  struct sigaction where {};
  where.sa_handler = &say_where;
  where.sa_flags = SA_RESTART;
  sigaction(kWhere, &where, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) handle(signal, &crashed);
  watcher_ = std::thread([this] { watch(); });
}

HangGuard::~HangGuard() {
  ending_.store(true);
  watcher_.join();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
}

void HangGuard::watch() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // others answer signals of the process
  clockid_t clock{};
  if (pthread_getcpuclockid(watched_thread, &clock) != 0) return;
  std::uint64_t seen = 0;
  double began_s = 0;
  int looks = 0;
  while (!ending_.load()) {
    std::this_thread::sleep_for(kLookEvery);
    const std::uint64_t step = step_.load(std::memory_order_relaxed);
    if (step == 0 || step != seen) {
      seen = step;
      looks = 0;
      began_s = processor_s(clock);
      continue;
    }
    ++looks;
    if (processor_s(clock) - began_s < kProcessorMost_s && looks < kLooksMost) continue;
    answered.store(false);
    found_in.store(nullptr);
    pthread_kill(watched_thread, kWhere);
    for (int wait = 0; wait < 100 && !answered.load(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (step_.load(std::memory_order_relaxed) != step) continue;  // it came back meanwhile
    if (const plugin::Plugin* one = found_in.load())
      quarantine_and_restart(*one, PluginExit::hung, "it did not come back from a call");
    looks = 0;  // the engine's own, or the system's: not held against a plugin
    began_s = processor_s(clock);
  }
}

}  // namespace batchflow::service
