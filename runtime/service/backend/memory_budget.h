// How much of this machine's memory may hold blocks, batches and kept samples together, and how
// much does. The engine plans with the sizes of things; this counts the memory they take, for as
// long as it is taken. A slab that was given back counts until the last job has unmapped it.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "core/base/types.h"

namespace batchflow::service {

class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes most) : most_(most) {}
  MemoryBudget(const MemoryBudget&) = delete;

  // False: less than that is left, even when all that is only held in advance is given back.
  bool take(Bytes bytes) { return take_now(bytes) || (reclaim_ && reclaim_() && take_now(bytes)); }
  // The same, but leaves alone what is held in advance: for uses that can be done without.
  bool take_now(Bytes bytes) {
    Bytes used = used_.load(std::memory_order_relaxed);
    const Bytes most = this->most();
    do {
      if (bytes > most || used > most - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(Bytes bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  Bytes used() const { return used_.load(std::memory_order_relaxed); }
  Bytes most() const { return most_.load(std::memory_order_relaxed); }
  // A bound below what is in use takes effect as memory is given back.
  void set_most(Bytes most) { most_.store(most, std::memory_order_relaxed); }

  // Of what is used, what is only held in advance.
  void add_spare(Bytes bytes) { spare_.fetch_add(bytes, std::memory_order_relaxed); }
  void take_spare(Bytes bytes) { spare_.fetch_sub(bytes, std::memory_order_relaxed); }
  Bytes needed() const { return used() - std::min(used(), spare_.load(std::memory_order_relaxed)); }

  // Whether take() would answer true.
  bool has_room(Bytes bytes) const { return needed() + bytes <= most(); }
  // Gives back what is held in advance; says whether there was any. Set it before other threads use
  // the budget.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }

 private:
  std::function<bool()> reclaim_;
  std::atomic<Bytes> most_;
  std::atomic<Bytes> used_{0};
  std::atomic<Bytes> spare_{0};
};

// A part of the budget, given back with its owner. It is false if less was left.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryBudget& budget, Bytes bytes)
      : budget_(budget.take(bytes) ? &budget : nullptr), bytes_(bytes) {}
  MemoryCharge(MemoryCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge() { give_back(); }
  void give_back() {
    if (budget_) std::exchange(budget_, nullptr)->give_back(bytes_);
  }
  explicit operator bool() const { return budget_ != nullptr; }

 private:
  MemoryBudget* budget_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
