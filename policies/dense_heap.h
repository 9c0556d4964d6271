// A heap over dense item ids: it gives the top item and changes keys in O(log n). A node has four
// children: half the levels of a binary heap, and siblings share a cache line.
//
// An item that is put aside keeps its key behind the last index of the heap.
//
// `Above` says which key stands higher. Equal keys stand in an order that depends on history alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/zero_array.h"
#include "core/engine/policy.h"

namespace batchflow::policies {

template <class Key, class Above>
class DenseHeap {
 public:
  explicit DenseHeap(std::size_t items)
      : keys_(items + kRoot), items_(items + kRoot), index_(items) {}
  void grow(std::size_t items) {
    keys_.grow(items + kRoot);
    items_.grow(items + kRoot);
    index_.grow(items);
  }

  std::size_t size() const { return end_ - kRoot; }
  bool contains(ItemId item) const { return index_[item.value] != 0; }
  bool is_aside(ItemId item) const { return index_[item.value] >= end_; }
  // REQUIRES: size() > 0
  ItemId top() const { return ItemId(items_[kRoot]); }
  const Key& top_key() const { return keys_[kRoot]; }
  // REQUIRES: contains(item)
  const Key& key(ItemId item) const { return keys_[index_[item.value]]; }
  // Items side by side in memory, in no order. REQUIRES: at < size()
  ItemId item_at(std::size_t at) const { return ItemId(items_[kRoot + at]); }
  const Key& key_at(std::size_t at) const { return keys_[kRoot + at]; }
  void prefetch(ItemId item) const { index_.prefetch(item.value); }

  // REQUIRES: !contains(item)
  void push(ItemId item, const Key& key) {
    if (aside_ > 0) put(end_ + aside_, Key(keys_[end_]), items_[end_]);
    rise(end_++, key, item.value);
  }
  // REQUIRES: contains(item), in both
  void change(ItemId item, const Key& key) { settle(index_[item.value], key, item.value); }
  void take(ItemId item) {
    const std::size_t at = index_[item.value];
    index_[item.value] = 0;
    close(at);
    if (aside_ > 0) put(end_, Key(keys_[end_ + aside_]), items_[end_ + aside_]);
  }
  // The item is not on top for a while, and then again where its key puts it. REQUIRES:
  // contains(item); for `bring_back`: it was put aside. Nothing else is asked of it in between.
  void put_aside(ItemId item) {
    const std::size_t at = index_[item.value];
    const Key key = keys_[at];
    close(at);
    put(end_, key, item.value);
    ++aside_;
  }
  void bring_back(ItemId item) {
    const std::size_t at = index_[item.value];
    const Key key = keys_[at];
    if (at != end_) put(at, Key(keys_[end_]), items_[end_]);
    --aside_;
    rise(end_++, key, item.value);
  }

 private:
  // The last of the heap fills the hole at `at`.
  void close(std::size_t at) {
    --end_;
    if (at < end_) settle(at, Key(keys_[end_]), items_[end_]);
  }
  // The root is at 3, so that the four children of any node share a line: those of n begin at 4 (n
  // - 2).
  static constexpr std::size_t kRoot = 3;
  static std::size_t parent(std::size_t at) { return at / 4 + 2; }
  static std::size_t first_child(std::size_t at) { return 4 * (at - 2); }

  void put(std::size_t at, const Key& key, std::uint32_t item) {
    keys_[at] = key;
    items_[at] = item;
    index_[item] = static_cast<std::uint32_t>(at);
  }
  void settle(std::size_t at, const Key& key, std::uint32_t item) {
    if (at > kRoot && Above{}(key, keys_[parent(at)])) {
      rise(at, key, item);
    } else {
      sink(at, key, item);
    }
  }
  void rise(std::size_t at, const Key& key, std::uint32_t item) {
    for (; at > kRoot && Above{}(key, keys_[parent(at)]); at = parent(at)) {
      put(at, keys_[parent(at)], items_[parent(at)]);
    }
    put(at, key, item);
  }
  void sink(std::size_t at, const Key& key, std::uint32_t item) {
    for (std::size_t first = first_child(at); first < end_; first = first_child(at)) {
      const std::size_t best = best_child(first);
      if (!Above{}(keys_[best], key)) break;
      put(at, keys_[best], items_[best]);
      at = best;
    }
    put(at, key, item);
  }
  std::size_t higher(std::size_t a, std::size_t b) const {
    return Above{}(keys_[b], keys_[a]) ? b : a;
  }
  // Pairs first: no comparison waits for another, and none needs a branch.
  std::size_t best_child(std::size_t first) const {
    if (first + 4 <= end_) {
      return higher(higher(first, first + 1), higher(first + 2, first + 3));
    }
    std::size_t best = first;
    for (std::size_t child = first + 1; child < end_; ++child) best = higher(best, child);
    return best;
  }

  ZeroArray<Key> keys_;             // by index in the heap
  ZeroArray<std::uint32_t> items_;  // by index in the heap
  ZeroArray<std::uint32_t> index_;  // of each item; 0: not in the heap
  std::size_t end_ = kRoot;
  std::size_t aside_ = 0;  // that stand at end_, end_ + 1, ...
};

}  // namespace batchflow::policies
