#include "runtime/service/backend/memory_wait.h"

#include "fmt/format.h"

namespace batchflow::service {
namespace {

// After the first of these times people are told why it waits; after the last the engine is told
// that it failed.
constexpr std::chrono::seconds kSayAfter{5};
constexpr std::chrono::minutes kSayAgain{1};
constexpr std::chrono::seconds kGiveUpAfter{30};
// A command that comes again so soon after it failed is still the same wait.
constexpr std::chrono::seconds kNewWait{2};

}  // namespace

void MemoryWait::note_short() {
  const auto now = Clock::now();
  ++times_short_;
  if (waiters_ == 0 && now - last_ > kNewWait) since_ = now;
  last_ = now;
}

bool MemoryWait::is_over(Clock::time_point since, Clock::time_point now) {
  if (now - since > kSayAfter) say();
  return now - since > kGiveUpAfter;
}

bool MemoryWait::is_over_for_all() const {
  return Clock::now() - since_ > kGiveUpAfter;
}

std::string MemoryWait::why_given_up(std::string_view what) const {
  return fmt::format("no memory for {} within {} s: {} of {} MiB are in use", what,
                     kGiveUpAfter.count(), context_.budget.used() >> 20,
                     context_.budget.most() >> 20);
}

void MemoryWait::say() {
  const auto now = Clock::now();
  if (!context_.say || now < say_after_) return;
  say_after_ = now + kSayAgain;
  context_.say(
      {fmt::format("no memory for a batch for more than {} s: {} of {} MiB are in use, and the "
                   "machine gives no more for the rest; let jobs release batches, give the service "
                   "more (--memory) where all is in use, and less, or the machine more, where not",
                   kSayAfter.count(), context_.budget.used() >> 20, context_.budget.most() >> 20),
       LogLevel::warning});
}

}  // namespace batchflow::service
