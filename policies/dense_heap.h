// A heap over dense item ids: who is on top, and keys that change, in O(log n). Four children a
// node: half the levels of a binary heap, and siblings share a cache line.
//
// `Above` says which key stands higher. Equal keys stand in an order that depends on history alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/policy.h"
#include "core/zero_array.h"

namespace batchflow {

template <class Key, class Above>
class DenseHeap {
 public:
  explicit DenseHeap(std::size_t items) : entries_(items), place_(items) {}
  void grow(std::size_t items) {
    entries_.grow(items);
    place_.grow(items);
  }

  std::size_t size() const { return size_; }
  bool contains(ItemId item) const { return place_[item.value] != 0; }
  // REQUIRES: size() > 0
  ItemId top() const { return ItemId(entries_[0].item); }
  const Key& top_key() const { return entries_[0].key; }
  const Key& key(ItemId item) const { return entries_[place_[item.value] - 1].key; }

  // REQUIRES: !contains(item)
  void push(ItemId item, const Key& key) { rise(size_++, {key, item.value}); }
  // REQUIRES: contains(item), in both
  void change(ItemId item, const Key& key) { settle(place_[item.value] - 1, {key, item.value}); }
  void take(ItemId item) {
    const std::size_t at = place_[item.value] - 1;
    place_[item.value] = 0;
    const Entry last = entries_[--size_];
    if (at < size_) settle(at, last);
  }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Entry {
    Key key;
    std::uint32_t item;
  };

  void put(std::size_t at, const Entry& entry) {
    entries_[at] = entry;
    place_[entry.item] = static_cast<std::uint32_t>(at + 1);
  }
  void settle(std::size_t at, const Entry& entry) {
    if (at > 0 && Above{}(entry.key, entries_[(at - 1) / kChildren].key)) {
      rise(at, entry);
    } else {
      sink(at, entry);
    }
  }
  void rise(std::size_t at, const Entry& entry) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!Above{}(entry.key, entries_[parent].key)) break;
      put(at, entries_[parent]);
      at = parent;
    }
    put(at, entry);
  }
  void sink(std::size_t at, const Entry& entry) {
    for (;;) {
      const std::size_t first = kChildren * at + 1;
      if (first >= size_) break;
      const std::size_t end = first + kChildren < size_ ? first + kChildren : size_;
      std::size_t best = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (Above{}(entries_[child].key, entries_[best].key)) best = child;
      }
      if (!Above{}(entries_[best].key, entry.key)) break;
      put(at, entries_[best]);
      at = best;
    }
    put(at, entry);
  }

  ZeroArray<Entry> entries_;
  ZeroArray<std::uint32_t> place_;  // plus one; 0: not in the heap
  std::size_t size_ = 0;
};

// The top that may leave. `refresh` is asked before a top is believed: false when it changed its
// key.
template <class Heap, class Refresh>
std::optional<ItemId> top_unpinned(Heap& heap, const Pins& pins, Refresh refresh) {
  struct Aside {
    ItemId item;
    std::decay_t<decltype(heap.top_key())> key;
  };
  std::vector<Aside> aside;  // pinned ones, for the time of the search
  std::optional<ItemId> found;
  while (heap.size() > 0 && !found) {
    const ItemId item = heap.top();
    if (!refresh(item)) continue;
    if (!pins.any() || !pins.pinned(item)) {
      found = item;
    } else {
      aside.push_back({item, heap.top_key()});
      heap.take(item);
    }
  }
  for (const Aside& pinned : aside) heap.push(pinned.item, pinned.key);
  return found;
}

}  // namespace batchflow
