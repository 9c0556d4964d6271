// An open-addressing map from 64-bit keys to 32-bit values, for lookups alone: nothing iterates it,
// so nothing depends on the order of its slots.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pool.h"
#include "core/random.h"

namespace batchflow {

class FlatMap {
 public:
  // kNone when absent.
  std::uint32_t find(std::uint64_t key) const {
    if (slots_.empty()) return kNone;
    for (std::size_t at = home(key);; at = next(at)) {
      if (slots_[at].value == kNone) return kNone;
      if (slots_[at].key == key) return slots_[at].value;
    }
  }

  // REQUIRES: value != kNone. Replaces what was there.
  void set(std::uint64_t key, std::uint32_t value) {
    if ((count_ + 1) * 2 > slots_.size()) enlarge();
    Slot& slot = slots_[place(key)];
    if (slot.value == kNone) ++count_;
    slot = {key, value};
  }

  void erase(std::uint64_t key) {
    if (slots_.empty()) return;
    std::size_t hole = place(key);
    if (slots_[hole].value == kNone) return;
    --count_;
    // Later entries of the run move back into the hole when that keeps them findable.
    for (std::size_t at = next(hole); slots_[at].value != kNone; at = next(at)) {
      const std::size_t wanted = home(slots_[at].key);
      const bool between =
          hole <= at ? (wanted > hole && wanted <= at) : (wanted > hole || wanted <= at);
      if (between) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].value = kNone;
  }

  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t value = kNone;
  };

  std::size_t home(std::uint64_t key) const { return mix(key) & (slots_.size() - 1); }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  std::size_t place(std::uint64_t key) const {
    std::size_t at = home(key);
    while (slots_[at].value != kNone && slots_[at].key != key) at = next(at);
    return at;
  }
  void enlarge() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kNone) slots_[place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace batchflow
