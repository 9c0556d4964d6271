// Scratch memory of the workers that prepare: pictures between two steps, tables, what decoders
// take. It is a part of the service's memory that is set apart for it, and it is bounded for each
// sample.
//
// Each worker may always have `each`. A sample that needs more takes all it needs from the shared
// memory before it begins, and gives it back at its end. So no worker waits while it holds any, and
// each that waits gets its turn.
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

// Products and sums that stop at kUncountable.
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

  // For one sample: half of what a worker has, since it may have kept the other half.
  Bytes small_sample_most() const { return each / 2; }
  Bytes most() const { return std::max(small_sample_most(), shared); }
};

// Thread-safe.
class ScratchBudget {
 public:
  explicit ScratchBudget(const ScratchLimits& limits) : limits_(limits), left_(limits.shared) {}
  ScratchBudget(const ScratchBudget&) = delete;

  const ScratchLimits& limits() const { return limits_; }
  // Waits for the memory, in the order of the calls.
  // REQUIRES: bytes <= limits().shared; this thread holds nothing of it
  void take(Bytes bytes);
  void give_back(Bytes bytes);

 private:
  const ScratchLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Bytes left_;
  std::uint64_t came_ = 0, served_ = 0;  // calls that wanted some, and that got it
};

// What a sample has of the budget: nothing beside what its worker always has, or all that it needs.
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

// Memory that grows to the largest size that was asked for, and is the machine's again once it is
// dropped. It does not keep its bytes when it grows.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  ~ScratchMemory() { drop(); }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  // Throws std::bad_alloc, and then has no memory.
  std::byte* have(Bytes bytes);
  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  void drop();

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_ = 0;
};

// The memory of a table that is filled anew for each sample.
template <class T>
Bytes bytes_of(const std::vector<T>& table) {
  return table.capacity() * sizeof(T);
}
template <class T>
void drop(std::vector<T>& table) {
  std::vector<T>().swap(table);
}

}  // namespace batchflow::memory
