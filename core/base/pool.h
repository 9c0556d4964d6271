// Objects by index. Freed ones are used again, last freed first. The order of reuse depends on the
// order of calls alone, never on addresses. A reference stays valid while its object lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/check.h"

namespace batchflow {

inline constexpr std::uint32_t kNone = UINT32_MAX;

// T needs `reset()`, which makes it like new; it may keep the memory of its vectors.
template <class T>
class Pool {
 public:
  std::uint32_t make() {
    if (free_.empty()) {
      const auto index = static_cast<std::uint32_t>(live_.size());
      if (index % kChunk == 0) chunks_.push_back(std::make_unique<T[]>(kChunk));
      live_.push_back(true);
      return index;
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    live_[index] = true;
    return index;
  }
  void release(std::uint32_t index) {
    BF_CHECK(live(index));
    (*this)[index].reset();
    live_[index] = false;
    free_.push_back(index);
  }
  bool live(std::uint32_t index) const { return index < live_.size() && live_[index]; }
  T& operator[](std::uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  const T& operator[](std::uint32_t index) const { return chunks_[index / kChunk][index % kChunk]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(live_.size()); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(live_.size() - free_.size()); }

 private:
  static constexpr std::uint32_t kChunk = 256;

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<bool> live_;
  std::vector<std::uint32_t> free_;
};

// Records in numbered slots that are reused. Growing moves records, but never changes their
// numbers.
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
