// How many bytes are kept where, in which form; known from the commands that bring and drop them.
// Every change is counted as it comes, so the maximum is exact.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/engine/event.h"
#include "programs/output/results.h"

namespace batchflow::world {

class Residency {
 public:
  explicit Residency(std::size_t nodes) : nodes_(nodes) {}

  // Bytes of items.
  void add(Place place, Form form, Bytes bytes);
  // No more than there are.
  void remove(Place place, Form form, Bytes bytes);
  // A block, or a gathered batch, in its slot; what was in the slot before is gone.
  void put(ShareId share, SlotId slot, Place place, Bytes bytes);
  // At least so much of the slot is filled.
  void grow(ShareId share, SlotId slot, Place place, Bytes bytes);
  void drop(ShareId share, SlotId slot);
  void lose(NodeId node);

  output::CachedBytes sum() const;
  // In all forms and places together, at any moment so far.
  Bytes most() const { return most_; }

 private:
  // By form; in memory, on drives, on GPUs.
  using Kept = std::array<std::array<Bytes, 3>, kForms>;

  struct KeptSlot {
    Place place;
    Bytes bytes;
  };
  std::vector<Kept> nodes_;
  Kept all_{};  // their sum
  Bytes bytes_ = 0;
  Bytes most_ = 0;
  std::unordered_map<std::uint64_t, KeptSlot>
      slots_;  // looked up; walked where the order does not matter
};

}  // namespace batchflow::world
