#include "runtime/memory/out_of_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

namespace batchflow::memory {
namespace {

using Clock = std::chrono::steady_clock;

// As much as the service's loop takes for some thousand messages.
constexpr std::size_t kReserve = std::size_t{4} << 20;
constexpr int kLargePiece = 1 << 20;
constexpr std::chrono::milliseconds kLookAgain{1};
constexpr std::chrono::seconds kSayAgain{10};

std::atomic<void*> reserve{nullptr};
std::atomic<Clock::rep> say_after{0};
thread_local int may_throw = 0;

// It must not allocate.
void say_that_there_is_none() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep after = say_after.load(std::memory_order_relaxed);
  const Clock::rep next = now + std::chrono::duration_cast<Clock::duration>(kSayAgain).count();
  if (now < after || !say_after.compare_exchange_strong(after, next)) return;
  constexpr std::string_view text =
      "the machine gives this process no memory: it waits until there is some; end something else, "
      "or raise its limit (MemoryMax=, ulimit -v)\n";
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, text.data(), text.size());
}

// `new` tries again when this returns.
void on_no_memory() {
  if (may_throw > 0) throw std::bad_alloc();
  if (void* const kept = reserve.exchange(nullptr)) return std::free(kept);
  say_that_there_is_none();
  std::this_thread::sleep_for(kLookAgain);
}

}  // namespace

void prepare_for_no_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargePiece);
  mallopt(M_TRIM_THRESHOLD, kLargePiece);
  refill_memory_reserve();
  std::set_new_handler(on_no_memory);
}

void refill_memory_reserve() {
  if (reserve.load(std::memory_order_relaxed)) return;
  void* const made = std::malloc(kReserve);
  void* none = nullptr;
  if (!made || !reserve.compare_exchange_strong(none, made)) std::free(made);
}

MayRunOutOfMemory::MayRunOutOfMemory() {
  ++may_throw;
}

MayRunOutOfMemory::~MayRunOutOfMemory() {
  --may_throw;
}

WaitsForMemory::WaitsForMemory() : before_(std::exchange(may_throw, 0)) {}

WaitsForMemory::~WaitsForMemory() {
  may_throw = before_;
}

void until_there_is_memory(const std::function<void()>& work) {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kLookAgain);
    }
  }
}

}  // namespace batchflow::memory
