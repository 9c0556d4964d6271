#include "core/engine/memory.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/saturating.h"

namespace batchflow::engine {

namespace {

// Far more than any place has, so that the sum over all its shares cannot overflow.
constexpr Bytes kSharesBytesMost = Bytes{1} << 56;

// A policy that asks for more cannot keep an engine busy.
constexpr Duration kAskedLeast = std::chrono::milliseconds(1);

}  // namespace

Memory::Memory(const PolicyChoice& allocation, std::vector<PolicyChoice> eviction,
               std::uint64_t seed, const Explain& explain)
    : allocation_(allocation, seed, explain, asked_),
      eviction_(shares_, std::move(eviction), seed, explain) {}

// ---------------------------------------------------------------------------------- places ----

void Memory::set_capacity(Place place, Bytes bytes) {
  PlacePart& place_part = places_[place];
  place_part.capacity = bytes;
  plan_again(place);
}

Bytes Memory::capacity(Place place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? 0 : found->second.capacity;
}

Bytes Memory::promised(Place place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? 0 : found->second.promised;
}

void Memory::forget_node(NodeId node) {
  for (auto place = places_.begin(); place != places_.end();) {
    if (place->first.node == node) {
      BF_CHECK(place->second.shares.empty() && place->second.staging.used == 0);
      set_wake(place->first, place->second, kNever);
      place = places_.erase(place);
    } else {
      ++place;
    }
  }
}

bool Memory::promises_kept(Place place) const {
  const auto found = places_.find(place);
  if (found == places_.end()) return false;
  const StagingPart& staging = found->second.staging;
  // What blocks still have of it is not there for a listed order yet.
  if (staging.granted < staging.listed + std::max(staging.least, staging.used)) return false;
  return std::all_of(found->second.shares.begin(), found->second.shares.end(), [&](ShareId share) {
    return shares_[share].share->capacity() >= shares_[share].least;
  });
}

// --------------------------------------------------------------------------------- staging ----

const StagingPart& Memory::staging(Place place) const {
  static const StagingPart kNothing;
  const auto found = places_.find(place);
  return found == places_.end() ? kNothing : found->second.staging;
}

void Memory::change_staging_promise(Place place, Bytes least, Bytes listed) {
  PlacePart& place_part = places_.at(place);
  place_part.promised += least + listed - place_part.staging.least - place_part.staging.listed;
  place_part.staging.least = least;
  place_part.staging.listed = listed;
  place_part.staging.wish = std::max(place_part.staging.wish, least);
  plan_again(place);
}

void Memory::plan_staging(Place place, Bytes least, Bytes wish) {
  StagingPart& staging = places_.at(place).staging;
  if (staging.least == least && staging.wish == wish) return;
  staging.wish = wish;
  change_staging_promise(place, least, staging.listed);
}

void Memory::raise_staging(Place place, Bytes least) {
  const StagingPart& staging = places_.at(place).staging;
  if (least > staging.least) change_staging_promise(place, least, staging.listed);
}

void Memory::promise_listed(Place place, Bytes bytes) {
  const StagingPart& staging = places_.at(place).staging;
  change_staging_promise(place, staging.least, staging.listed + bytes);
}

void Memory::give_back_listed(Place place, Bytes bytes) {
  const auto found = places_.find(place);
  if (found == places_.end()) return;  // with its node
  const StagingPart& staging = found->second.staging;
  change_staging_promise(place, staging.least, staging.listed - bytes);
}

void Memory::stage(Place place, Bytes bytes) {
  places_.at(place).staging.used += bytes;
}

void Memory::unstage(Place place, Bytes bytes) {
  PlacePart& place_part = places_.at(place);
  BF_CHECK(place_part.staging.used >= bytes);
  place_part.staging.used -= bytes;
  ++place_part.freed;
}

// Takes from what is left beside the promises of shares.
void Memory::aim_staging(PlacePart& place_part) {
  StagingPart& staging = place_part.staging;
  const Bytes of_shares = place_part.promised - staging.least - staging.listed;
  const Bytes room = place_part.capacity > of_shares ? place_part.capacity - of_shares : 0;
  staging.target =
      std::max(staging.least + staging.listed, std::min(room, staging.wish + staging.listed));
}

Bytes Memory::room_for_shares(const PlacePart& place_part) {
  return place_part.capacity > place_part.staging.target
             ? place_part.capacity - place_part.staging.target
             : 0;
}

// True when it has no more than it should.
bool Memory::shrink_staging(PlacePart& place_part) {
  StagingPart& staging = place_part.staging;
  const Bytes in_use = staging.listed + staging.used;
  staging.granted = std::min(staging.granted, std::max(staging.target, in_use));
  return staging.granted <= staging.target;
}

bool Memory::grow_staging(PlacePart& place_part, Bytes goal) {
  StagingPart& staging = place_part.staging;
  if (staging.granted >= goal || place_part.granted >= place_part.capacity) return false;
  const Bytes more = std::min(goal - staging.granted, place_part.capacity - place_part.granted);
  staging.granted += more;
  place_part.granted += more;
  return true;
}

// ---------------------------------------------------------------------------------- shares ----

ShareId Memory::add_share(const ShareSpec& spec) {
  BF_CHECK(spec.slot_bytes > 0);
  const auto place = places_.find(spec.place);
  BF_CHECK_MSG(place != places_.end(), "a share needs a place that has a capacity");
  const ShareId index = shares_.make();
  SharePart& part = shares_[index];
  part.spec = spec;
  part.numbers = ItemNumbers::for_items(spec.items);
  part.share = std::make_unique<Share>(spec.items, 0, eviction_.begin(part), part.numbers);
  part.share->count_freed(&place->second.freed);
  part.share->note_questions(&asked_);
  place->second.shares.push_back(index);
  plan_again(spec.place);
  return index;
}

void Memory::remove_share(ShareId index) {
  SharePart& part = shares_[index];
  PlacePart& place = places_.at(part.spec.place);
  place.granted -= part.share->capacity() * part.spec.slot_bytes;
  place.promised -= part.least * part.spec.slot_bytes;
  std::erase(place.shares, index);
  eviction_.end(index);
  plan_again(part.spec.place);
  refused_evictions_ += part.share->counters().refused;
  shares_.release(index);
  ++resizes_;
}

void Memory::promise(ShareId index, Slots least) {
  SharePart& part = shares_[index];
  if (part.least == least) return;
  PlacePart& place = places_.at(part.spec.place);
  place.promised -= part.least * part.spec.slot_bytes;
  place.promised += least * part.spec.slot_bytes;
  part.least = least;
  plan_again(part.spec.place);
}

bool Memory::resize_slots(ShareId index, Bytes slot_bytes) {
  SharePart& part = shares_[index];
  const Slots capacity = part.share->capacity();
  const Slots most = std::max({capacity, part.least, part.spec.slots_all, Slots{1}});
  if (slot_bytes == 0 || slot_bytes > kSharesBytesMost / most) return false;
  PlacePart& place = places_.at(part.spec.place);
  place.granted -= capacity * part.spec.slot_bytes;
  place.promised -= part.least * part.spec.slot_bytes;
  part.spec.slot_bytes = slot_bytes;
  place.granted += capacity * slot_bytes;
  place.promised += part.least * slot_bytes;
  plan_again(part.spec.place);
  return true;
}

void Memory::set_jobs(ShareId index, std::uint32_t jobs, Slots ahead, std::uint32_t ranks) {
  SharePart& part = shares_[index];
  if (part.jobs == jobs && part.ahead == ahead && part.ranks == ranks) return;
  part.ranks = ranks;
  if (part.jobs > 0 && jobs == 0) part.idle_since = ++left_idle_;
  part.jobs = jobs;
  part.ahead = ahead;
  plan_again(part.spec.place);
}

void Memory::drop_idle(ShareId index) {
  SharePart& part = shares_[index];
  if (part.jobs > 0) return;
  part.idle_since = 0;
  plan_again(part.spec.place);
}

std::optional<Memory::Taken> Memory::take(ShareId index, BlockIndex owner,
                                          std::vector<Resident>& evicted) {
  SharePart& part = shares_[index];
  Share& share = *part.share;
  if (share.used() >= share.capacity() && share.evictable() == 0) return std::nullopt;
  if (share.capacity() == 0) return std::nullopt;

  if (part.free_items.empty()) {
    const auto item = static_cast<std::uint32_t>(part.owner_of.size());
    part.owner_of.push_back(BlockIndex::none());
    part.slot_of.push_back(SlotId::none());
    share.grow(item + 1);
    part.free_items.push_back(ItemId(item));
  }
  const ItemId item = part.free_items.back();
  share.forget(item);
  std::vector<ItemId> gone;
  if (!share.insert_forced({item, 1, kUnknownUse}, gone)) return std::nullopt;
  part.free_items.pop_back();
  share.pin(item);
  note_evicted(index, gone, evicted);

  if (part.free_slots.empty()) part.free_slots.push_back(SlotId(part.slots_made++));
  const SlotId slot = part.free_slots.back();
  part.free_slots.pop_back();
  part.slot_of[item.value] = slot;
  part.owner_of[item.value] = owner;
  return Taken{item, slot};
}

// The slots of evicted items are free at once: their owners are told, and drop the items before
// anything is put there.
void Memory::note_evicted(ShareId index, const std::vector<ItemId>& gone,
                          std::vector<Resident>& evicted) {
  SharePart& part = shares_[index];
  for (const ItemId item : gone) {
    if (of_blocks(part.spec.use)) {
      evicted.push_back({index, item, part.owner_of[item.value], part.slot_of[item.value]});
      free_item(part, item);
    } else {
      evicted.push_back({index, item});
    }
  }
}

void Memory::free_item(SharePart& part, ItemId item) {
  part.free_slots.push_back(part.slot_of[item.value]);
  part.slot_of[item.value] = SlotId::none();
  part.owner_of[item.value] = BlockIndex::none();
  part.free_items.push_back(item);
}

void Memory::give_back(ShareId index, ItemId item) {
  SharePart& part = shares_[index];
  while (part.share->pinned(item)) part.share->unpin(item);
  part.share->remove(item, Removal::invalidated);
  free_item(part, item);
}

// ------------------------------------------------------------------------------ allocation ----

void Memory::plan_again(Place place) {
  const auto found = places_.find(place);
  if (found == places_.end()) return;
  ++found->second.freed;  // what was in the way may not be any more
  if (!std::exchange(found->second.plan_due, true)) to_plan_.push_back(place);
  if (std::exchange(found->second.settled, false)) to_settle_.push_back(place);
}

void Memory::plan(Instant now, Place place, PlacePart& place_part) {
  place_part.plan_due = false;
  planned_.push_back(place);
  aim_staging(place_part);
  const Instant again =
      allocation_.plan(now, place, room_for_shares(place_part), place_part.shares, shares_);
  set_wake(place, place_part, again == kNever ? kNever : std::max(again, after(now, kAskedLeast)));
}

void Memory::set_wake(Place place, PlacePart& place_part, Instant at) {
  if (place_part.wakes != kNever) wakes_.erase({place_part.wakes, place});
  place_part.wakes = at;
  if (at != kNever) wakes_.insert({at, place});
}

void Memory::wake(Instant now) {
  while (!wakes_.empty() && wakes_.begin()->first <= now) {
    const Place place = wakes_.begin()->second;
    set_wake(place, places_.at(place), kNever);
    plan_again(place);
  }
}

void Memory::set_share_capacity(PlacePart& place_part, SharePart& share, Slots capacity) {
  place_part.granted -= share.share->capacity() * share.spec.slot_bytes;
  share.share->set_capacity(capacity);
  ++resizes_;
  place_part.granted += capacity * share.spec.slot_bytes;
}

bool Memory::unused(ShareId index) const {
  const SharePart& part = shares_[index];
  return !of_blocks(part.spec.use) && part.jobs == 0 && part.share->used() == 0 &&
         part.share->capacity() == 0;
}

// True when all shares are at or below their targets.
bool Memory::shrink(PlacePart& place_part, std::size_t& limit, std::vector<Resident>& evicted) {
  bool all = shrink_staging(place_part);
  for (const ShareId index : place_part.shares) {
    SharePart& share = shares_[index];
    if (unused(index)) unused_.push_back(index);
    if (share.share->capacity() <= share.target) continue;
    const Slots pinned = share.share->used() - share.share->evictable();
    const Slots goal = std::max(share.target, pinned);
    std::vector<ItemId> gone;
    ++resizes_;
    share.share->set_capacity(goal);  // the books follow below, when the evictions are known
    share.share->shrink(limit, gone);
    note_evicted(index, gone, evicted);
    share.share->set_capacity(std::max(goal, share.share->used()));
    all = all && share.share->capacity() <= share.target;
    if (unused(index)) unused_.push_back(index);
  }
  place_part.granted = place_part.staging.granted;
  for (const ShareId index : place_part.shares) {
    place_part.granted += shares_[index].share->capacity() * shares_[index].spec.slot_bytes;
  }
  return all;
}

void Memory::grow(Place place, PlacePart& place_part) {
  // What is promised comes first.
  for (const bool promised : {true, false}) {
    const StagingPart& staging = place_part.staging;
    const Bytes staged =
        promised ? std::min(staging.least + staging.listed, staging.target) : staging.target;
    if (grow_staging(place_part, staged)) grown_.push_back(place);
    for (const ShareId index : place_part.shares) {
      SharePart& share = shares_[index];
      const Slots now = share.share->capacity();
      const Slots goal = promised ? std::min(share.least, share.target) : share.target;
      if (now >= goal || place_part.granted >= place_part.capacity) continue;
      const Slots room = (place_part.capacity - place_part.granted) / share.spec.slot_bytes;
      const Slots more = std::min(goal - now, room);
      if (more == 0) continue;
      set_share_capacity(place_part, share, now + more);
      grown_.push_back(place);
    }
  }
}

// In the order of their names, whatever order they were added in.
void Memory::plan_now(Instant now) {
  ++plan_rounds_;
  std::sort(to_plan_.begin(), to_plan_.end());
  for (const Place& place : to_plan_) {
    const auto found = places_.find(place);
    if (found != places_.end() && found->second.plan_due) plan(now, place, found->second);
  }
  to_plan_.clear();
}

bool Memory::settle(Instant now, std::size_t limit, std::vector<Resident>& evicted) {
  plan_now(now);
  bool more = false;
  std::sort(to_settle_.begin(), to_settle_.end());
  for (const Place& place : std::exchange(to_settle_, {})) {
    const auto found = places_.find(place);
    if (found == places_.end() || found->second.settled) continue;
    PlacePart& place_part = found->second;
    if (std::exchange(place_part.freed_when_tried, place_part.freed) == place_part.freed) {
      to_settle_.push_back(place);
      continue;
    }
    const std::size_t before = evicted.size();
    place_part.settled = shrink(place_part, limit, evicted);
    grow(place, place_part);
    if (!place_part.settled) to_settle_.push_back(place);
    // Only pinned items are left in the way: there is nothing to do until they are released. If the
    // slice was used up, there may be others.
    if (!place_part.settled && (evicted.size() != before || limit == 0)) {
      ++place_part.freed;
      more = true;
    }
  }
  return more;
}

// -------------------------------------------------------------------------------- policies ----

void Memory::change_allocation(const PolicyChoice& choice) {
  allocation_.change(choice);
  for (const auto& [place, part] : places_) plan_again(place);
}

ShareId Memory::id_of(const Share* share) const {
  ShareId found = ShareId::none();
  shares_.each([&](ShareId index) {
    if (shares_[index].share.get() == share) found = index;
  });
  return found;
}

// ------------------------------------------------------------------------------- the books ----

Memory::Counters Memory::counters() const {
  Counters counters;
  counters.refused_allocations = allocation_.refused();
  counters.refused_evictions = refused_evictions_;
  shares_.each([&](ShareId index) {
    counters.refused_evictions += shares_[index].share->counters().refused;
  });
  return counters;
}

void Memory::check_consistency() const {
  for (const auto& [place, part] : places_) {
    const StagingPart& staging = part.staging;
    Bytes granted = staging.granted;
    Bytes promised = staging.least + staging.listed;
    for (const ShareId index : part.shares) {
      const SharePart& share = shares_[index];
      BF_CHECK(share.spec.place == place);
      BF_CHECK(share.share->used() <= share.share->capacity());
      granted += share.share->capacity() * share.spec.slot_bytes;
      promised += share.least * share.spec.slot_bytes;
    }
    BF_CHECK(granted == part.granted && promised == part.promised);
  }
}

}  // namespace batchflow::engine
