#include "runtime/storage/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace batchflow::storage {
namespace {

// A kernel without this call gives each page when it is first written to.
bool get_pages(std::byte* memory, Bytes bytes) {
  return madvise(memory, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

}  // namespace

bool HugePages::populate(std::byte* memory, Bytes bytes) {
  std::byte* const end = memory + bytes;
  while (memory < end) {
    const Bytes past = reinterpret_cast<std::uintptr_t>(memory) % kBytes;
    const Bytes step = std::min<Bytes>(static_cast<Bytes>(end - memory), kBytes - past);
    if (step < kBytes) {
      if (!get_pages(memory, step)) return false;
    } else {
      const bool huge = choose();
      const auto began = std::chrono::steady_clock::now();
      if (huge) madvise(memory, step, MADV_HUGEPAGE);
      if (!get_pages(memory, step)) return false;
      note(huge, std::chrono::steady_clock::now() - began);
    }
    memory += step;
  }
  return true;
}

bool HugePages::choose() {
  const std::lock_guard lock(mutex_);
  if (small_ == Duration(0)) return false;
  if (huge_ == Duration(0)) return true;
  const bool better = huge_ < small_;
  if (++chosen_ < trial_after_) return better;
  chosen_ = 0;
  trial_after_ = std::min(2 * trial_after_, kTrialAfterMost);
  return !better;
}

void HugePages::note(bool huge, Duration took) {
  const std::lock_guard lock(mutex_);
  Duration& known = huge ? huge_ : small_;
  known = known == Duration(0) ? took : (known + took) / 2;
}

}  // namespace batchflow::storage
