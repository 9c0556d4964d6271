// Linked lists over dense item ids. The links of item i are in an array at i, so entering, leaving
// and moving take a few writes without any search or allocation. Eviction policies are made of
// them.
//
// DenseLists: one or more lists, each item in at most one of them, ordered from newest to oldest.
// Segments: the same, and counts the slots in each list and remembers the list of each item.
// Lists are circular through a sentinel, which stands before the items: no end is a special case.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/zero_array.h"
#include "core/engine/policy.h"

namespace batchflow::policies {

struct Links {
  std::uint32_t newer;
  std::uint32_t older;
};

template <unsigned kLists = 1, class Node = Links>
class DenseLists {
 public:
  explicit DenseLists(std::size_t items) : nodes_(kLists + items) {
    for (std::uint32_t list = 0; list < kLists; ++list) {
      nodes_[list].newer = nodes_[list].older = list;
    }
  }
  void grow(std::size_t items) { nodes_.grow(kLists + items); }
  // Prefetches the links of the item that leaves next but one after the oldest, `item`: a list that
  // is longer than the caches would wait for each of them.
  void prefetch_after(ItemId item) const {
    __builtin_prefetch(&nodes_[nodes_[(*this)[item].newer].newer]);
  }

  Node& operator[](ItemId item) { return nodes_[kLists + item.value]; }
  const Node& operator[](ItemId item) const { return nodes_[kLists + item.value]; }

  bool empty(unsigned list = 0) const { return nodes_[list].newer == list; }
  // None at an end, or when the list is empty.
  ItemId newest(unsigned list = 0) const { return item_at(nodes_[list].older); }
  ItemId oldest(unsigned list = 0) const { return item_at(nodes_[list].newer); }
  ItemId newer(ItemId item) const { return item_at((*this)[item].newer); }
  ItemId older(ItemId item) const { return item_at((*this)[item].older); }

  // REQUIRES: the item is in no list.
  void add_newest(ItemId item, unsigned list = 0) { link(kLists + item.value, list); }
  void add_oldest(ItemId item, unsigned list = 0) { link(kLists + item.value, nodes_[list].newer); }
  // REQUIRES: the item is in a list.
  void take(ItemId item) {
    const Node& node = (*this)[item];
    nodes_[node.newer].older = node.older;
    nodes_[node.older].newer = node.newer;
  }
  void move_to_newest(ItemId item, unsigned list = 0) {
    take(item);
    add_newest(item, list);
  }

 private:
  static ItemId item_at(std::uint32_t index) {
    return index < kLists ? ItemId::none() : ItemId(index - kLists);
  }
  // Puts `index` on the older side of `after`; a sentinel's older side is the newest of its list.
  void link(std::uint32_t index, std::uint32_t after) {
    const std::uint32_t before = nodes_[after].older;
    nodes_[index].newer = after;
    nodes_[index].older = before;
    nodes_[after].older = index;
    nodes_[before].newer = index;
  }

  ZeroArray<Node> nodes_;
};

struct SegmentNode : Links {
  std::uint32_t slots;
  std::uint8_t segment;  // the list plus one; 0: in none
  std::uint8_t mark;     // the policy's own
};

template <unsigned kLists>
class Segments {
 public:
  explicit Segments(std::size_t items) : lists_(items) {}
  void grow(std::size_t items) { lists_.grow(items); }

  bool in_any(ItemId item) const { return lists_[item].segment != 0; }
  bool in(ItemId item, unsigned list) const { return lists_[item].segment == list + 1; }
  unsigned list_of(ItemId item) const { return lists_[item].segment - 1u; }
  Slots used(unsigned list) const { return used_[list]; }
  Slots slots(ItemId item) const { return lists_[item].slots; }
  bool empty(unsigned list) const { return lists_.empty(list); }
  void prefetch_after(ItemId item) const { lists_.prefetch_after(item); }
  ItemId newest(unsigned list) const { return lists_.newest(list); }
  ItemId oldest(unsigned list) const { return lists_.oldest(list); }
  ItemId newer(ItemId item) const { return lists_.newer(item); }
  ItemId older(ItemId item) const { return lists_.older(item); }
  std::uint8_t& mark(ItemId item) { return lists_[item].mark; }

  void add(ItemId item, Slots slots, unsigned list) {
    SegmentNode& node = lists_[item];
    node.slots = static_cast<std::uint32_t>(slots);
    node.segment = static_cast<std::uint8_t>(list + 1);
    node.mark = 0;
    used_[list] += slots;
    lists_.add_newest(item, list);
  }
  void take(ItemId item) {
    SegmentNode& node = lists_[item];
    used_[node.segment - 1u] -= node.slots;
    node.segment = 0;
    lists_.take(item);
  }
  // The item is not met in its list for a while, although its slots count there; then it is the
  // oldest, or the newest, again.
  void put_aside(ItemId item) { lists_.take(item); }
  void bring_back(ItemId item) { lists_.add_oldest(item, list_of(item)); }
  void bring_back_as_newest(ItemId item) { lists_.add_newest(item, list_of(item)); }
  // To the newest end of `list`; the mark stays.
  void move(ItemId item, unsigned list) {
    SegmentNode& node = lists_[item];
    used_[node.segment - 1u] -= node.slots;
    used_[list] += node.slots;
    node.segment = static_cast<std::uint8_t>(list + 1);
    lists_.move_to_newest(item, list);
  }

 private:
  DenseLists<kLists, SegmentNode> lists_;
  std::array<Slots, kLists> used_{};
};

// The oldest of `list`, which is about to leave; none when the list is empty.
template <class Lists>
ItemId oldest_to_leave(const Lists& lists, unsigned list = 0) {
  const ItemId item = lists.oldest(list);
  if (!item.is_none()) lists.prefetch_after(item);
  return item;
}

}  // namespace batchflow::policies
