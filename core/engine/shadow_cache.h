// What a share could have hit, had its policy known all next uses: Belady's rule, with newcomers
// that may stay out, over the same capacity. Only some items are followed
// (core/engine/followed_items.h), and hits are counted for the same items. The difference is the
// share's regret.
//
// Next uses are known as far as orders tell them (core/engine/future.h). Jobs that come later are
// not foreseen, so the bound is a little too low.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/base/types.h"
#include "core/engine/followed_items.h"

namespace batchflow::engine {

class ShadowCache {
 public:
  // At most one item in eight is followed.
  explicit ShadowCache(std::size_t items) : followed_(items, 3) {}

  bool follows(ItemId item) const { return followed_.has(item); }
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
  struct Kept {
    Slots slots;
    std::uint64_t next_use;
  };
  using All = std::map<std::uint32_t, Kept>;

  void fit(Slots capacity) {
    while (used_ > followed_.part_of(capacity)) leave(kept_.find(std::prev(by_use_.end())->second));
  }
  void leave(All::iterator one) {
    used_ -= one->second.slots;
    by_use_.erase({one->second.next_use, one->first});
    kept_.erase(one);
  }

  FollowedItems followed_;
  All kept_;                                                  // by item
  std::set<std::pair<std::uint64_t, std::uint32_t>> by_use_;  // the last is needed last
  Slots used_ = 0;
};

}  // namespace batchflow::engine
