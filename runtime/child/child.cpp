// batchflow-policy-child: decides in place of a service with the policies of one plugin. The
// service starts it, and ends it; runtime/child/wire.h has what they share.
//
//   batchflow-policy-child NAME PARENT
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "policies/apart/described.h"
#include "policies/apart/served.h"
#include "policies/plugin/failures.h"
#include "policies/plugin/load.h"
#include "programs/confine/confine.h"
#include "runtime/child/wire.h"
#include "runtime/protocol/ring.h"

namespace {

using namespace batchflow;
using namespace batchflow::child;

// How long it looks for calls before it sleeps, in looks: some 80 us. To be woken costs more than a
// question, and the next one of a block comes soon.
constexpr int kLooks = 1600;

void pause_shortly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Areas {
 public:
  bool map_areas() {
    void* const calls =
        mmap(nullptr, kHeadBytes + kCallBytes, PROT_READ, MAP_SHARED, kCallsFile, 0);
    void* const answers = mmap(nullptr, kHeadBytes + kAnswerBytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED, kAnswersFile, 0);
    if (calls == MAP_FAILED || answers == MAP_FAILED) return false;
    calls_ = static_cast<const CallsHead*>(calls);
    ring_ = static_cast<const std::byte*>(calls) + kHeadBytes;
    answers_ = static_cast<AnswersHead*>(answers);
    answer_ = static_cast<std::byte*>(answers) + kHeadBytes;
    return true;
  }

  void answer(std::span<const std::byte> bytes) {
    if (bytes.size() > kAnswerBytes) return fail("it answers with more than 2 MiB");
    send(bytes, false);
  }
  void fail(const std::string& why) {
    send(std::as_bytes(std::span(why)).first(std::min<std::size_t>(why.size(), 1000)), true);
  }

  // Calls `serve(call, answer)` for all calls, in turn, for as long as the service lives.
  template <class Serve>
  [[noreturn]] void run(Serve serve) {
    std::vector<std::byte> answer;
    for (;;) {
      wait_for_calls();
      const std::size_t at = read_ % kCallBytes;
      CallFrame frame;
      std::memcpy(&frame, ring_ + at, sizeof(frame));
      if (frame.answers == kWraps) {
        read_ += kCallBytes - at;
      } else {
        answer.clear();
        serve(std::span(ring_ + at + sizeof(frame), frame.bytes), answer, frame.answers != 0);
        read_ += frame_bytes(frame.bytes);
      }
      answers_->read.store(read_, std::memory_order_release);
    }
  }

 private:
  void send(std::span<const std::byte> bytes, bool failed) {
    if (!bytes.empty()) std::memcpy(answer_, bytes.data(), bytes.size());
    answers_->bytes.store(static_cast<std::uint32_t>(bytes.size()));
    answers_->failed.store(failed ? 1 : 0);
    answers_->answered.fetch_add(1);
    if (calls_->waits.load() != 0) protocol::futex_wake(&answers_->answered);
  }
  void wait_for_calls() {
    for (int looks = 0;; ++looks) {
      if (calls_->written.load(std::memory_order_acquire) != read_) return;
      if (looks < kLooks) {
        pause_shortly();
        continue;
      }
      const std::uint32_t wakes = calls_->wakes.load();
      answers_->sleeps.store(1);
      if (calls_->written.load() == read_) {
        protocol::futex_wait(calls_->wakes, wakes, 1'000'000'000);
        pollfd service{kServiceLives, 0, 0};
        if (poll(&service, 1, 0) != 0) _exit(0);
      }
      answers_->sleeps.store(0);
    }
  }

  const CallsHead* calls_ = nullptr;
  const std::byte* ring_ = nullptr;
  AnswersHead* answers_ = nullptr;
  std::byte* answer_ = nullptr;
  std::uint64_t read_ = 0;
};

std::string failures_text() {
  std::string text;
  for (const plugin::Failure& one : plugin::take_failures())
    text += (text.empty() ? "" : "; ") + one.policy + ": " + one.why;
  return text;
}

// Returns if it cannot begin.
void decide(Areas& areas, std::int32_t parent) {
  std::string problem;
  try {
    const auto file =
        std::make_shared<const plugin::PluginFile>("/proc/self/fd/" + std::to_string(kPluginFile));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Sanitizers reserve terabytes, and make calls that no policy needs. A crash is to look like
    // one, and not to take the time of their report.
    std::signal(SIGSEGV, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static_cast<void>(parent);
#else
    confine::Limits limits{parent, kMemoryMost};
    limits.last_file = 63;  // the copy of the plugin has some number
    if (!confine::confine(confine::Confined::policy, limits, problem)) return areas.fail(problem);
#endif
    const plugin::Plugin loaded(file);
    apart::Served served(loaded.policies());
    areas.answer(apart::describe(loaded.policies(), loaded.presets()));
    problem = failures_text();
    areas.run([&](std::span<const std::byte> call, std::vector<std::byte>& answer, bool answers) {
      if (problem.empty() && !served.serve(call, answer)) problem = "it was called in vain";
      const std::string failed = failures_text();
      if (problem.empty()) problem = failed;
      if (!answers) return;
      problem.empty() ? areas.answer(answer) : areas.fail(problem);
    });
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "an exception left it while it was loaded";
  }
  areas.fail(problem);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  close_range(kServiceLives + 1, ~0u, 0);
  Areas areas;
  if (!areas.map_areas()) return 3;
  decide(areas, static_cast<std::int32_t>(std::strtol(argv[2], nullptr, 10)));
  // What the plugin would do at exit does not matter, and may hang.
  _exit(4);
}
