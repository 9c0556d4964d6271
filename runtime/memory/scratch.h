// Scratch memory of the workers that prepare: pictures between two steps, tables, what decoders
// take. It is a part of the service's memory that is set apart for it, and bounded for each sample.
//
// Each worker may always have `each`. A sample that needs more takes all it needs from what is
// shared, before it begins, and gives it back at its end: so no worker waits while it holds any,
// and each that waits gets its turn.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/base/types.h"

namespace batchflow::memory {

// More than any machine has, and so little that sums of some dozens do not overflow.
inline constexpr Bytes kUncountable = Bytes{1} << 56;

// Both as counted: what is too large to be counted stays so.
constexpr Bytes counted_product(Bytes a, Bytes b) {
  Bytes product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kUncountable : std::min(product, kUncountable);
}
constexpr Bytes counted_sum(Bytes a, Bytes b) {
  Bytes sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kUncountable : std::min(sum, kUncountable);
}

struct ScratchLimits {
  Bytes each = kUncountable;    // that a worker may keep from sample to sample
  Bytes shared = kUncountable;  // of all samples together that need more

  // Of one sample. Half of what a worker has: the other half it may have kept.
  Bytes of_small() const { return each / 2; }
  Bytes most() const { return std::max(of_small(), shared); }
};

// Thread-safe.
class ScratchBudget {
 public:
  explicit ScratchBudget(const ScratchLimits& limits) : limits_(limits), left_(limits.shared) {}
  ScratchBudget(const ScratchBudget&) = delete;

  const ScratchLimits& limits() const { return limits_; }
  // Waits for it, behind those that came before. REQUIRES: bytes <= limits().shared; this thread
  // holds nothing of it
  void take(Bytes bytes);
  void give_back(Bytes bytes);

 private:
  const ScratchLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Bytes left_;
  std::uint64_t came_ = 0, served_ = 0;  // that wanted some, and got it
};

// What a sample has of the budget: nothing beside what its worker always has, or all it needs.
class ScratchCharge {
 public:
  explicit ScratchCharge(ScratchBudget& budget) : budget_(budget) {}
  ~ScratchCharge() { give_back(); }
  ScratchCharge(const ScratchCharge&) = delete;

  // REQUIRES: bytes <= limits().most(), and nothing is held
  void take(Bytes bytes);
  void give_back();
  bool is_large() const { return bytes_ > 0; }

 private:
  ScratchBudget& budget_;
  Bytes bytes_ = 0;
};

// Memory that grows to the largest that was asked for, and is the machine's again once it is
// dropped. Its bytes are not kept when it grows.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  ~ScratchMemory() { drop(); }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  // Throws std::bad_alloc, and then has none.
  std::byte* have(Bytes bytes);
  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  void drop();

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_ = 0;
};

// Of a table that is filled anew for each sample.
template <class T>
Bytes bytes_of(const std::vector<T>& table) {
  return table.capacity() * sizeof(T);
}
template <class T>
void drop(std::vector<T>& table) {
  std::vector<T>().swap(table);
}

}  // namespace batchflow::memory
