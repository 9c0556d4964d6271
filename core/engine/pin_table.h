// How often each pinned item is pinned: a hash table as large as the number of pinned items, never
// as the number of items. It has open addressing, linear probing, and deletion by moving back.
// Nothing iterates over it, so no order can come from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace batchflow::engine {

class PinTable {
 public:
  std::size_t size() const { return size_; }  // items with at least one pin
  std::uint32_t count(ItemId item) const;
  void prefetch(ItemId item) const {
    if (!entries_.empty()) __builtin_prefetch(&entries_[home(item.value)], 1);
  }
  std::uint32_t add(ItemId item);  // the pins the item has now
  // REQUIRES: count(item) > 0
  std::uint32_t drop(ItemId item);  // the pins that are left

 private:
  struct Entry {
    std::uint32_t item;
    std::uint32_t count;  // 0: free
  };
  std::size_t mask() const { return entries_.size() - 1; }
  std::size_t home(std::uint32_t item) const;
  std::size_t find(std::uint32_t item) const;  // its entry, or the free one where it would be
  void erase(std::size_t at);
  void double_up();

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace batchflow::engine
