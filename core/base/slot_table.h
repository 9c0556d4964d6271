// Records in numbered slots that are reused. Growing moves records, but never changes their
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchflow {

template <class T>
class SlotTable {
 public:
  T& operator[](std::uint32_t slot) { return slots_[slot]; }
  const T& operator[](std::uint32_t slot) const { return slots_[slot]; }
  // All slots, the free ones included.
  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::size_t used() const { return slots_.size() - free_.size(); }

  // The record is as its last user left it. References to other records may become invalid.
  std::uint32_t take() {
    if (free_.empty()) {
      slots_.emplace_back();
      return size() - 1;
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void release(std::uint32_t slot) { free_.push_back(slot); }

 private:
  std::vector<T> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace batchflow
