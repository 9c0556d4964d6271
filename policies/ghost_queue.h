// The bound of a list of ghosts: a FIFO of items that left, remembered up to a number of slots.
#pragma once

#include "policies/dense_list.h"

namespace batchflow::policies {

template <unsigned kList>
class GhostQueue {
 public:
  // Forgets the oldest until `slots` more fit; false when they never will.
  template <class Lists>
  bool make_room(Lists& lists, Slots slots) {
    if (slots > limit_) return false;
    // After a resize there may be far too many ghosts. They go a few at a time, while everything
    // new is remembered, so that no single request pays for all.
    for (int dropped = 0; lists.used(kList) > limit_ - slots; ++dropped) {
      if (too_many_ && dropped == kMostAtOnce) return true;
      lists.take(lists.oldest(kList));
    }
    too_many_ = false;
    return true;
  }
  template <class Lists>
  void resize(const Lists& lists, Slots limit) {
    limit_ = limit;
    too_many_ = lists.used(kList) > limit;
  }

 private:
  static constexpr int kMostAtOnce = 16;
  Slots limit_ = 0;
  bool too_many_ = false;  // after a resize
};

}  // namespace batchflow::policies
