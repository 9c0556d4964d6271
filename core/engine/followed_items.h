// The items of a share that stand for all of them, where to follow each would cost too much: chosen
// by hash, and kept in a room that is as much smaller (spatial sampling, as in SHARDS, FAST 2015).
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
  // What is theirs of something that all items share.
  std::uint64_t part_of(std::uint64_t all) const { return all >> shift_; }
  // What all items have where these have so many.
  std::uint64_t scaled_to_all(std::uint64_t theirs) const { return theirs << shift_; }

 private:
  static constexpr std::size_t kFollowed = 4096;

  int shift_;
};

}  // namespace batchflow::engine
