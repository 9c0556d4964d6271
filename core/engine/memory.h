// Places and their shares: how many slots of which memory each share may use.
//
// A place is cut into shares: the encoded or decoded items of a dataset, the prepared blocks of a
// stream, the batches of a job if they are larger than its blocks. The allocation policy says how
// many slots each share should have (core/engine/allocation.h). This class moves memory from one
// share to another a part at a time. A share grows only by what another has really given up. The
// sum of all shares never exceeds the place.
//
// The engine's parts use it. It knows nothing of jobs, blocks or orders.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/engine/allocation.h"
#include "core/engine/explain.h"
#include "core/engine/indices.h"
#include "core/engine/policy_list.h"
#include "core/engine/share_part.h"
#include "core/engine/share_policies.h"

namespace batchflow::engine {

// The part of a place that reads land in, in bytes. What is read for blocks counts as used from its
// command until nothing needs it. What batches of listed orders take is set apart for them.
struct StagingPart {
  Bytes least = 0;    // promised for blocks: one sample of each dataset that streams here
  Bytes listed = 0;   // promised to listed orders
  Bytes wish = 0;     // for blocks
  Bytes target = 0;   // with what is promised to listed orders
  Bytes granted = 0;  // likewise
  Bytes used = 0;     // for blocks
  Bytes room() const { return granted > listed ? granted - listed : 0; }  // for blocks
  Bytes free() const { return room() > used ? room() - used : 0; }
};

class Memory {
 public:
  struct Counters {
    std::uint64_t refused_allocations = 0;
    std::uint64_t refused_evictions = 0;
  };

  // `eviction`: kEvictions choices. `explain` outlives it.
  Memory(const PolicyChoice& allocation, std::vector<PolicyChoice> eviction, std::uint64_t seed,
         const Explain& explain);

  // ------------------------------------------------------------------------------ places ----
  void set_capacity(Place place, Bytes bytes);
  Bytes capacity(Place place) const;
  bool has(Place place) const { return places_.count(place) != 0; }
  // What all promises of a place take together.
  Bytes promised(Place place) const;
  const StagingPart& staging(Place place) const;
  // Sets what blocks need of it at least, and what they need so that no worker waits.
  void plan_staging(Place place, Bytes least, Bytes wish);
  // Raises it to at least this, from now on.
  void raise_staging(Place place, Bytes least);
  // Listed orders come, and go.
  void promise_listed(Place place, Bytes bytes);
  void give_back_listed(Place place, Bytes bytes);
  // Reads were commanded, or are no longer needed.
  void stage(Place place, Bytes bytes);
  void unstage(Place place, Bytes bytes);
  // All places of `node` are gone. The owners of their shares have removed them before.
  void forget_node(NodeId node);

  // ------------------------------------------------------------------------------ shares ----
  ShareId add_share(const ShareSpec& spec);
  // The residents of the share and their pins are gone with it.
  void remove_share(ShareId share);
  SharePart& operator[](ShareId share) { return shares_[share]; }
  const SharePart& operator[](ShareId share) const { return shares_[share]; }
  bool live(ShareId share) const { return shares_.live(share); }
  template <class Visit>
  void each(Visit visit) const {
    shares_.each(visit);
  }
  void promise(ShareId share, Slots least);
  // A share that no job reads any more keeps its memory as long as no other share wants it.
  void set_jobs(ShareId share, std::uint32_t jobs, Slots ahead = 0, std::uint32_t ranks = 0);
  // What is in a slot was measured, and differs from what the share counts for it. False: a slot
  // cannot be that large, and nothing changes.
  bool resize_slots(ShareId share, Bytes slot_bytes);
  // Everything in the share leaves, unless a job reads it.
  void drop_idle(ShareId share);

  // Puts an item of one slot, owned by `owner`, into a share of blocks or batches, and pins it
  // once. Nothing when everything in the share is pinned.
  struct Taken {
    ItemId item;
    SlotId slot;
  };
  std::optional<Taken> take(ShareId share, BlockIndex owner, std::vector<Resident>& evicted);
  // The item leaves because its owner says so, pinned or not.
  void give_back(ShareId share, ItemId item);

  // -------------------------------------------------------------------------- allocation ----
  // Something has changed, so the allocation policy is asked before the next `settle`.
  void plan_again(Place place);
  bool plan_due() const { return !to_plan_.empty(); }
  // Asks the policy at once where that is due; nothing moves yet. The rates it is shown are as of
  // `now`.
  void plan_now(Instant now);
  // How often that was done. Nothing but memory changes while places are planned.
  std::uint64_t plan_rounds() const { return plan_rounds_; }
  // Adds to what the policy is shown.
  void complete_views_with(Allocation::Complete complete) {
    allocation_.complete_with(std::move(complete));
  }
  // When the policy wants to be asked next, though nothing has changed; kNever: not at all.
  Instant asks_next() const { return wakes_.empty() ? kNever : wakes_.begin()->first; }
  // That time has come for some places: their policies are to be asked.
  void wake(Instant now);
  // Moves memory towards the targets with at most `limit` evictions. True when more is left to do.
  bool settle(Instant now, std::size_t limit, std::vector<Resident>& evicted);
  // Shares of items that no job uses and that are empty, as far as this was found since the last
  // call.
  bool unused(ShareId share) const;
  std::vector<ShareId> take_unused() { return std::exchange(unused_, {}); }
  // Places in which targets were set anew, and places in which a share has grown, since the last
  // call.
  std::vector<Place> take_planned() { return std::exchange(planned_, {}); }
  std::vector<Place> take_grown() { return std::exchange(grown_, {}); }
  // How often a share has got another capacity, or has gone.
  std::uint64_t resizes() const { return resizes_; }
  // How many items in all shares are from before the engine.
  std::uint64_t from_before() const { return from_before_; }
  void note_from_before(ShareId share, ItemId item) {
    shares_[share].share->note_from_before(item, &from_before_);
  }
  // Whether staging and every share of the place have at least what was promised.
  bool promises_kept(Place place) const;

  // ---------------------------------------------------------------------------- policies ----
  void change_allocation(const PolicyChoice& choice);
  // The eviction policies of all shares.
  SharePolicies& eviction() { return eviction_; }
  const SharePolicies& eviction() const { return eviction_; }

  // What is asked of any policy of the engine.
  Asked& asked() { return asked_; }
  const Asked& asked() const { return asked_; }
  // The id of the share that is asked about; none: the share is gone.
  ShareId id_of(const Share* share) const;

  // BF_CHECKs that no place is over its capacity and that all books agree.
  void check_consistency() const;
  Counters counters() const;

 private:
  struct PlacePart {
    Bytes capacity = 0;
    Bytes granted = 0;   // staging, and the sum of the shares' capacities in bytes
    Bytes promised = 0;  // sum of what they were promised
    StagingPart staging;
    std::vector<ShareId> shares;
    bool plan_due = false;
    bool settled = true;
    Instant wakes = kNever;  // stands in wakes_
    // While the place is not settled: if these two differ, something that was in the way may have
    // left since the last try.
    std::uint64_t freed = 0;
    std::uint64_t freed_when_tried = 0;
  };

  void note_evicted(ShareId share, const std::vector<ItemId>& gone, std::vector<Resident>& evicted);
  void free_item(SharePart& part, ItemId item);
  void plan(Instant now, Place place, PlacePart& place_part);
  void set_wake(Place place, PlacePart& place_part, Instant at);
  static void aim_staging(PlacePart& place_part);
  static Bytes room_for_shares(const PlacePart& place_part);
  void change_staging_promise(Place place, Bytes least, Bytes listed);
  static bool shrink_staging(PlacePart& place_part);
  bool grow_staging(PlacePart& place_part, Bytes goal);
  bool shrink(PlacePart& place_part, std::size_t& limit, std::vector<Resident>& evicted);
  void grow(Place place, PlacePart& place_part);
  void set_share_capacity(PlacePart& place_part, SharePart& share, Slots capacity);

  Asked asked_;
  Allocation allocation_;
  std::map<Place, PlacePart> places_;          // few; ordered by name, so that no address decides
  std::set<std::pair<Instant, Place>> wakes_;  // the policy is to be asked then
  std::uint64_t from_before_ = 0;              // items; shares count in it as long as they are
  IndexedPool<SharePart, ShareId> shares_;
  SharePolicies eviction_;
  std::uint64_t refused_evictions_ = 0;  // in shares that are no more
  std::vector<Place> to_plan_;           // plan_due
  std::uint64_t plan_rounds_ = 0;
  std::vector<Place> to_settle_;  // not settled
  std::vector<Place> grown_;
  std::uint64_t resizes_ = 0;
  std::vector<ShareId> unused_;
  std::uint64_t left_idle_ = 0;
  std::vector<Place> planned_;
};

}  // namespace batchflow::engine
