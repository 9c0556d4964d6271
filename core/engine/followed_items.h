// Some items of a share, chosen by hash, that stand for all where following each would cost too
// much. A cache of these items alone is smaller by the same factor (spatial sampling, as in SHARDS,
// FAST 2015).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::engine {

class FollowedItems {
 public:
  // About kFollowed of `items` are followed, and at most one in 2^least_shift.
  FollowedItems(std::size_t items, int least_shift)
      : shift_(std::clamp(static_cast<int>(std::bit_width(items / kFollowed)), least_shift, 31)) {}

  bool has(ItemId item) const {
    return shift_ == 0 || item.value * 0x9e3779b1u >> (32 - shift_) == 0;
  }
  // The part of these items in something that all items share.
  std::uint64_t part_of(std::uint64_t all) const { return all >> shift_; }
  // What all items have, where these items have `theirs`.
  std::uint64_t scaled_to_all(std::uint64_t theirs) const { return theirs << shift_; }

 private:
  static constexpr std::size_t kFollowed = 4096;

  int shift_;
};

}  // namespace batchflow::engine
