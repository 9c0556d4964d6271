// Blocks and batches that wait for memory: until a slab is unmapped or a slot is free, or the
// machine has pages again.
#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "runtime/service/backend/backend.h"

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

// A worker that leaves takes nothing more.
void Backend::fail_waiting(WorkerId worker) {
  std::erase_if(unplaced_, [&](const Unplaced& one) {
    if (one.order.worker != worker) return false;
    inbox_.add(engine::PreparationDone{one.entry.request, engine::Outcome::failed, {}});
    return true;
  });
}

void Backend::note_short() {
  const auto now = Clock::now();
  ++counters_.no_memory;
  if (unplaced_.empty() && ungathered_.empty() && now - short_last_ > kNewWait) short_since_ = now;
  short_last_ = now;
}

// Blocks take turns with the workers: if none has got memory for this long, no block begins to
// wait.
void Backend::wait_for_memory(PreparationOrder&& order, const Preparing& entry) {
  note_short();
  if (Clock::now() - short_since_ > kGiveUpAfter) {
    give_up(entry);
  } else {
    unplaced_.push_back({std::move(order), entry, {stalls_, entry.pipeline}});
  }
}

// The engine refuses a job with blocks that fail again and again, because a worker waits with each.
// It does not refuse a job with batches that cannot be gathered, which holds up only itself.
void Backend::give_up(const Preparing& entry) {
  troubles_.note(entry.pipeline,
                 fmt::format("no memory for a block within {} s: {} of {} MiB are in use",
                             kGiveUpAfter.count(), budget_.used() >> 20, budget_.most() >> 20));
  inbox_.add(engine::PreparationDone{entry.request, engine::Outcome::failed, {}});
}

void Backend::retry_waiting() {
  settle_workers();
  if (unplaced_.empty() && ungathered_.empty()) return;
  const auto now = Clock::now();
  short_last_ = now;
  for (Unplaced& one : std::exchange(unplaced_, {})) {
    const Preparing& entry = one.entry;
    const auto since = std::min(entry.since, short_since_);
    if (now - since > kSayAfter) say_no_memory();
    if (now - since > kGiveUpAfter) {
      give_up(entry);
    } else if (auto slot = slot_of(entry.share, entry.slot, entry.pipeline, entry.samples,
                                   entry.audience)) {
      one.order.slot = *slot;
      hand_to_worker(std::move(one.order), entry);
    } else {
      unplaced_.push_back(std::move(one));
    }
  }
  for (const Ungathered& one : std::exchange(ungathered_, {})) {
    if (now - one.entry.since > kSayAfter) say_no_memory();
    if (now - one.entry.since > kGiveUpAfter) {
      inbox_.add(engine::TransferDone{one.entry.order.request, engine::Outcome::failed});
    } else {
      gather(one.entry.order, one.entry.since);
    }
  }
}

void Backend::say_no_memory() {
  const auto now = Clock::now();
  if (!options_.say || now < say_no_memory_after_) return;
  say_no_memory_after_ = now + kSayAgain;
  options_.say(
      {fmt::format("no memory for a batch for more than {} s: {} of {} MiB are in use, and the "
                   "machine gives no more for the rest; let jobs release batches, give the service "
                   "more (--memory) where all is in use, and less, or the machine more, where not",
                   kSayAfter.count(), budget_.used() >> 20, budget_.most() >> 20),
       LogLevel::warning});
}

}  // namespace batchflow::service
