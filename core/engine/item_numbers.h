// Short numbers for the items of a share that has very many. An item gets the next number when it
// is first named. The share and its policy keep what they know of an item at its number, so all
// that was touched lies side by side, and nothing is kept of the rest. Were it kept by id, each
// sample of a block would touch a page of its own, which takes the system a microsecond and 4 KiB.
#pragma once

#include <cstddef>
#include <memory>

#include "core/base/flat_map.h"
#include "core/base/types.h"
#include "core/base/zero_array.h"

namespace batchflow::engine {

class ItemNumbers {
 public:
  // A share with more items than this numbers them.
  static constexpr std::size_t kPlainMost = std::size_t{1} << 24;
  // Null for a share of few items: their ids serve as numbers.
  static std::shared_ptr<ItemNumbers> for_items(std::size_t items) {
    return items > kPlainMost ? std::make_shared<ItemNumbers>() : nullptr;
  }

  ItemNumbers() : items_(kFirstRoom) {}
  // None: it has no number yet.
  ItemId find(ItemId item) const { return ItemId(numbers_.find(item.value)); }
  ItemId give(ItemId item) {
    if (const ItemId known = find(item); !known.is_none()) return known;
    if (count_ == items_.size()) items_.grow(2 * items_.size());
    items_[count_] = item.value;
    numbers_.set(item.value, count_);
    return ItemId(count_++);
  }
  // REQUIRES: the number was given
  ItemId item(ItemId number) const { return ItemId(items_[number.value]); }
  // All numbers are below; it grows.
  std::size_t room() const { return items_.size(); }

 private:
  static constexpr std::size_t kFirstRoom = 4096;
  FlatMap numbers_;
  ZeroArray<std::uint32_t> items_;  // by number
  std::uint32_t count_ = 0;
};

}  // namespace batchflow::engine
