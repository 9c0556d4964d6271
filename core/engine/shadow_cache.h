// What a share could have hit, had its policy known all next uses: Belady's rule, with newcomers
// that may stay out, over the same capacity. Only some items are followed, over a capacity that is
// as much smaller (spatial sampling, as in SHARDS, FAST 2015), and hits are counted for the same
// items. The difference is the share's regret.
//
// Next uses are as far as orders tell them (core/engine/future.h), so jobs that come later make the
// bound a little too low.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/base/types.h"

namespace batchflow::engine {

class ShadowCache {
 public:
  // About kFollowed of the items are followed, and at most one in eight.
  explicit ShadowCache(std::size_t items)
      : shift_(std::clamp(static_cast<int>(std::bit_width(items / kFollowed)), 3, 31)) {}

  bool follows(ItemId item) const { return item.value * 0x9e3779b1u >> (32 - shift_) == 0; }
  // Answers whether it is a hit, over a share that has this capacity now.
  bool request(ItemId item, Slots slots, std::uint64_t next_use, Slots capacity) {
    fit(capacity);
    const auto known = kept_.find(item.value);
    const bool hit = known != kept_.end();
    if (hit) leave(known);
    kept_[item.value] = {slots, next_use};
    by_use_.emplace(next_use, item.value);
    used_ += slots;
    fit(capacity);
    return hit;
  }

 private:
  static constexpr std::size_t kFollowed = 4096;
  struct Kept {
    Slots slots;
    std::uint64_t next_use;
  };
  using All = std::map<std::uint32_t, Kept>;

  void fit(Slots capacity) {
    while (used_ > capacity >> shift_) leave(kept_.find(std::prev(by_use_.end())->second));
  }
  void leave(All::iterator one) {
    used_ -= one->second.slots;
    by_use_.erase({one->second.next_use, one->first});
    kept_.erase(one);
  }

  int shift_;
  All kept_;                                                  // by item
  std::set<std::pair<std::uint64_t, std::uint32_t>> by_use_;  // the last is needed last
  Slots used_ = 0;
};

}  // namespace batchflow::engine
