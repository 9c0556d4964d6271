// What another eviction policy would have kept in a share, and what that would have hit: it is
// shown the same requests, over as much room, and changes nothing.
//
// Only some items are followed (core/engine/followed_items.h), and the hits of the share's own
// policy are counted for the same items.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/followed_items.h"
#include "core/engine/policy_list.h"
#include "core/engine/share.h"

namespace batchflow::engine {

class PolicyShadow {
 public:
  struct Counts {
    std::uint64_t requests = 0;
    std::uint64_t live_hits = 0;  // of the policy that decides
    std::uint64_t hits = 0;
    Slots live_missed = 0;
    Slots missed = 0;
  };

  PolicyShadow(std::shared_ptr<const PolicyChoice> choice, std::size_t items, Random random,
               Form form, Tier tier, DatasetId dataset)
      : choice_(std::move(choice)),
        followed_(items, 0),
        share_(items, 0, choice_->make_eviction(items, 0, random, form, tier, dataset, true)) {}

  const PolicyChoice& choice() const { return *choice_; }
  bool wants_next_uses() const { return choice_->entry->next_uses; }
  bool follows(ItemId item) const { return followed_.has(item); }
  // REQUIRES: follows(access.item). `capacity`: of the share now.
  void request(const Access& access, Slots capacity, bool live_hit) {
    if (followed_.part_of(capacity) != share_.capacity()) resize(followed_.part_of(capacity));
    ++counts_.requests;
    counts_.live_hits += live_hit ? 1 : 0;
    counts_.live_missed += live_hit ? 0 : access.slots;
    evicted_.clear();
    const bool hit = share_.access(access, evicted_) == Share::Result::hit;
    counts_.hits += hit ? 1 : 0;
    counts_.missed += hit ? 0 : access.slots;
  }
  // Counts so many samples as requested and hit: their dataset is kept whole, in room enough for
  // any policy.
  void count_whole(std::uint64_t samples) {
    const std::uint64_t followed = followed_.part_of(samples);
    counts_.requests += followed;
    counts_.live_hits += followed;
    counts_.hits += followed;
  }
  // Scaled to all items.
  Counts counts() const {
    Counts all = counts_;
    for (std::uint64_t* one :
         {&all.requests, &all.live_hits, &all.hits, &all.live_missed, &all.missed})
      *one = followed_.scaled_to_all(*one);
    return all;
  }

 private:
  void resize(Slots capacity) {
    share_.set_capacity(capacity);
    std::size_t limit = SIZE_MAX;
    evicted_.clear();
    share_.shrink(limit, evicted_);
  }

  std::shared_ptr<const PolicyChoice> choice_;
  FollowedItems followed_;
  Share share_;
  std::vector<ItemId> evicted_;
  Counts counts_;
};

}  // namespace batchflow::engine
