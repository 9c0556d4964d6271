// How many bytes are kept where, in which form: told by the orders that bring and drop them.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "configs/reader/results.h"
#include "core/event.h"

namespace batchflow::sim {

class Residency {
 public:
  explicit Residency(std::size_t nodes) : nodes_(nodes) {}

  // Items, encoded or decoded.
  void add_items(Place place, Form form, Bytes bytes);
  void drop_items(Place place, Form form, Bytes bytes);
  // A block, or a batch that is gathered, in its slot; what was in it before is gone.
  void put(ShareId share, SlotId slot, Place place, Bytes bytes);
  // At least so much of it is filled.
  void grow(ShareId share, SlotId slot, Place place, Bytes bytes);
  void drop(ShareId share, SlotId slot);
  void lose(NodeId node);

  CachedBytes sum() const;

 private:
  using Kept = std::array<std::array<Bytes, 2>, kForms>;  // by form; in memory, on drives
  Bytes& at(Place place, Form form);

  struct Slot {
    Place place;
    Bytes bytes;
  };
  std::vector<Kept> nodes_;
  std::unordered_map<std::uint64_t, Slot> slots_;  // looked up; walked where order does not count
};

}  // namespace batchflow::sim
