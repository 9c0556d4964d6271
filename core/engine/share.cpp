#include "core/engine/share.h"

#include <bit>

#include "core/base/check.h"

namespace batchflow::engine {
namespace {

constexpr std::size_t words_for(std::size_t items) {
  return (items + 63) / 64;
}
constexpr Access kNoItem{ItemId::none(), 0, kUnknownUse};
// How many pinned items are passed by for one newcomer. After that the newcomer stays out. If it
// must be in, the unpinned resident with the lowest id leaves.
constexpr std::size_t kPinnedPassed = 64;

}  // namespace

std::string_view refused_name(Refused reason) {
  constexpr std::string_view kNames[kRefusedReasons] = {"none", "no victim named", "no such item",
                                                        "not resident", "pinned"};
  return kNames[static_cast<std::size_t>(reason)];
}

Share::Share(std::size_t items, Slots capacity, std::unique_ptr<EvictionPolicy> policy,
             std::shared_ptr<ItemNumbers> numbers)
    : items_(items),
      numbered_(numbers ? numbers->room() : items),
      capacity_(capacity),
      words_(words_for(numbered_)),
      lowest_word_(words_.size()),
      numbers_(std::move(numbers)),
      policy_(std::move(policy)) {
  BF_CHECK(policy_ != nullptr && items < UINT32_MAX);
}

Share::~Share() {
  if (from_before_count_ != 0) *from_before_all_ -= from_before_count_;
}

// -------------------------------------------------------------------- requests and residents ----

ItemId Share::give_number(ItemId item) {
  if (!numbers_) return item;
  const ItemId number = numbers_->give(item);
  if (numbers_->room() > numbered_) grow_numbers(numbers_->room());
  return number;
}

Access Share::numbered(Access access) {
  access.item = give_number(access.item);
  return access;
}

Share::Result Share::access(const Access& access, std::vector<ItemId>& evicted) {
  BF_CHECK(access.item.value < items_ && access.slots - 1 < UINT32_MAX);
  return numbers_ ? request(numbered(access), evicted) : request(access, evicted);
}

Share::Result Share::request(const Access& access, std::vector<ItemId>& evicted) {
  note(access);
  counters_.slots_requested += access.slots;
  if (is_resident(access.item)) {
    ++counters_.hits;
    bring_back(access.item);
    policy_->hit(access);
    if (told_incoming(access.item)) incoming_->hit(access);
    return Result::hit;
  }
  ++counters_.misses;
  counters_.slots_missed += access.slots;
  const Admission answer = ask_admission(access);
  if (answer == Admission::bypass || !fits(access, false)) return Result::bypassed;
  if (answer == Admission::insert || answer == Admission::trim_and_insert) {
    if (answer == Admission::trim_and_insert) evict_named(access, false, evicted);
    if (!make_room(access, false, evicted)) return Result::bypassed;
    insert(access);
    return Result::inserted;
  }
  evict_named(access, true, evicted);
  return Result::bypassed;
}

void Share::announce(std::vector<Access>& requests) {
  if (numbers_) {
    for (Access& one : requests) one.item = give_number(one.item);
  }
  note(kNoItem);
  policy_->announced(requests);
}

bool Share::insert_forced(const Access& access, std::vector<ItemId>& evicted) {
  BF_CHECK(access.item.value < items_ && access.slots - 1 < UINT32_MAX);
  BF_CHECK(!resident(access.item));
  if (!fits(access, true)) return false;
  const Access inner = numbered(access);
  note(inner);
  ask_admission(inner);
  // It has no name: a policy that lets newcomers compete with residents must not let this one
  // compete.
  BF_CHECK(make_room({ItemId::none(), access.slots, kUnknownUse}, true, evicted));
  insert(inner);
  return true;
}

EarlyRead Share::insert_early(const Access& access, std::vector<ItemId>& evicted) {
  BF_CHECK(access.item.value < items_ && access.slots - 1 < UINT32_MAX);
  BF_CHECK(!resident(access.item));
  const Access inner = numbered(access);
  note(inner);
  const EarlyRead answer = policy_->read_early(inner);
  if (answer != EarlyRead::yes) return answer;
  if (!fits(inner, false) || !make_room(inner, false, evicted)) return EarlyRead::no;
  insert(inner);
  return EarlyRead::yes;
}

void Share::remove(ItemId item, Removal why) {
  const ItemId number = number_of(item);
  BF_CHECK(is_resident(number));
  if (has_pins(number)) {
    while (pins_.drop(number) != 0) {
    }
    free_pinned(number);
  }
  note({number, slots_of(number), kUnknownUse});
  leave(number, why);
}

void Share::forget(ItemId item) {
  const ItemId number = number_of(item);
  BF_CHECK(item.value < items_ && !is_resident(number));
  if (number.is_none()) return;
  note({number, 0, kUnknownUse});
  policy_->forget(number);
  if (told_incoming(number)) incoming_->forget(number);
}

void Share::pin(ItemId item) {
  const ItemId number = number_of(item);
  BF_CHECK(is_resident(number));
  if (pins_.add(number) != 1) return;
  words_[number.value >> 6].pinned |= bit_of(number);
  pinned_slots_ += slots_of(number);
}

void Share::unpin(ItemId item) {
  const ItemId number = number_of(item);
  if (pins_.drop(number) == 0) free_pinned(number);
}

void Share::unpin_all() {
  BF_CHECK(pinned_all_ > 0);
  if (--pinned_all_ == 0) note_freed();
}

// The item's last pin has gone.
void Share::free_pinned(ItemId item) {
  words_[item.value >> 6].pinned &= ~bit_of(item);
  pinned_slots_ -= slots_of(item);
  bring_back(item);
  note_freed();
}

void Share::put_aside(ItemId item) {
  aside_.grow(words_.size());
  aside_[item.value >> 6] |= bit_of(item);
  ++aside_count_;
  policy_->pinned(item);
}

// The next that the policy hears of an item that it put aside is that it may leave.
void Share::bring_back(ItemId item) {
  if (!is_put_aside(item)) return;
  aside_[item.value >> 6] &= ~bit_of(item);
  --aside_count_;
  policy_->unpinned(item);
}

Admission Share::ask_admission(const Access& access) {
  if (told_incoming(access.item)) incoming_->missed(access);
  return policy_->missed(access);
}

void Share::insert(const Access& access) {
  const ItemId item = access.item;
  if (access.slots != 1 && more_slots_.empty()) more_slots_.grow(numbered_);
  if (!more_slots_.empty()) more_slots_[item.value] = static_cast<std::uint32_t>(access.slots - 1);
  words_[item.value >> 6].resident |= bit_of(item);
  if (item.value >> 6 < lowest_word_) lowest_word_ = item.value >> 6;
  ++residents_;
  used_ += access.slots;
  ++counters_.insertions;
  policy_->inserted(access);
  if (told_incoming(item)) incoming_->inserted(access);
}

void Share::leave(ItemId item, Removal why) {
  words_[item.value >> 6].resident &= ~bit_of(item);
  --residents_;
  used_ -= slots_of(item);
  if (from_before_count_ != 0) forget_from_before(item);
  policy_->removed(item, why);
  if (told_incoming(item)) incoming_->removed(item, why);
}

void Share::note_from_before(ItemId item, std::uint64_t* all) {
  const ItemId number = number_of(item);
  BF_CHECK(is_resident(number));
  from_before_.grow(words_.size());
  std::uint64_t& word = from_before_[number.value >> 6];
  if ((word & bit_of(number)) != 0) return;
  word |= bit_of(number);
  ++from_before_count_;
  from_before_all_ = all;
  ++*all;
}

void Share::forget_from_before(ItemId item) {
  const std::size_t at = item.value >> 6;
  if (at >= from_before_.size() || (from_before_[at] & bit_of(item)) == 0) return;
  from_before_[at] &= ~bit_of(item);
  --from_before_count_;
  --*from_before_all_;
}

// --------------------------------------------------------------------------------- eviction ----

// Whether room can be made without touching pinned items. A share that is being shrunk lets in only
// what must be somewhere: one request should not wait for all that `shrink` has to evict.
bool Share::fits(const Access& newcomer, bool forced) const {
  const Slots pinned = pinned_all_ > 0 ? used_ : pinned_slots_;
  if (newcomer.slots > capacity_ || pinned > capacity_ - newcomer.slots) return false;
  return forced || used_ <= capacity_;
}

// Evicts what the policy names until it names nothing or, with `until_fits`, until the newcomer
// fits.
void Share::evict_named(const Access& newcomer, bool until_fits, std::vector<ItemId>& evicted) {
  if (pinned_all_ > 0) return;
  std::size_t looks = kPinnedPassed;
  while (!until_fits || used_ > capacity_ - newcomer.slots) {
    const Victim victim = ask_victim(newcomer, looks);
    if (victim.put_off || victim.reason == Refused::no_victim) return;
    if (victim.reason != Refused::none) return refuse(victim.reason);
    evict(victim.item, evicted);
  }
}

// REQUIRES: fits(newcomer, forced)
bool Share::make_room(const Access& newcomer, bool forced, std::vector<ItemId>& evicted) {
  std::size_t looks = kPinnedPassed;
  while (used_ > capacity_ - newcomer.slots) {
    Victim victim = ask_victim(newcomer, looks);
    if (victim.reason != Refused::none) refuse(victim.reason);
    if (victim.item.is_none() && forced) victim.item = lowest_unpinned_number();
    if (victim.item.is_none()) return false;
    evict(victim.item, evicted);
  }
  return true;
}

// REQUIRES: something may leave. Each pinned item that is passed by takes one off `looks`.
Share::Victim Share::ask_victim(const Access& newcomer, std::size_t& looks) {
  for (;;) {
    const ItemId proposal = policy_->victim(newcomer);
    const Refused reason = objection(proposal);
    if (reason != Refused::none) return {ItemId::none(), reason};
    if (!has_pins(proposal)) return {proposal};
    if (looks == 0) return {ItemId::none(), Refused::none, true};
    --looks;
    put_aside(proposal);
  }
}

Refused Share::objection(ItemId proposal) const {
  if (proposal.is_none()) return Refused::no_victim;
  if (proposal.value >= numbered_) return Refused::out_of_range;
  if (!is_resident(proposal)) return Refused::not_resident;
  return is_put_aside(proposal) ? Refused::pinned : Refused::none;
}

void Share::refuse(Refused reason) {
  ++counters_.refused;
  ++counters_.refused_by_reason[static_cast<std::size_t>(reason)];
  counters_.last_refused = reason;
}

ItemId Share::lowest_unpinned_number() {
  if (pinned_all_ > 0) return ItemId::none();
  while (lowest_word_ < words_.size() && words_[lowest_word_].resident == 0) ++lowest_word_;
  for (std::size_t index = lowest_word_; index < words_.size(); ++index) {
    const std::uint64_t free = words_[index].resident & ~words_[index].pinned;
    if (free != 0) return ItemId(static_cast<std::uint32_t>(64 * index + std::countr_zero(free)));
  }
  return ItemId::none();
}

void Share::evict(ItemId item, std::vector<ItemId>& evicted) {
  ++counters_.evictions;
  leave(item, Removal::evicted);
  evicted.push_back(named(item));
}

// --------------------------------------------------------------------------------- capacity ----

void Share::set_capacity(Slots capacity) {
  note(kNoItem);
  capacity_ = capacity;
  policy_->resized(capacity);
  if (incoming_) incoming_->resized(capacity);
}

bool Share::shrink(std::size_t& limit, std::vector<ItemId>& evicted) {
  note(kNoItem);
  while (used_ > capacity_ && evictable() > 0) {
    if (limit == 0) return false;
    Victim victim = ask_victim(kNoItem, limit);
    if (limit == 0) return false;
    --limit;
    if (victim.reason != Refused::none) {
      refuse(victim.reason);
      victim.item = lowest_unpinned_number();
    }
    evict(victim.item, evicted);
  }
  return true;
}

void Share::grow(std::size_t items) {
  BF_CHECK(items < UINT32_MAX);
  if (items <= items_) return;
  items_ = items;
  if (!numbers_) grow_numbers(items);
}

void Share::grow_numbers(std::size_t items) {
  // No resident stands beyond the old words, so a "none" at their end becomes one at the new end.
  if (lowest_word_ == words_.size()) lowest_word_ = words_for(items);
  words_.grow(words_for(items));
  if (!aside_.empty()) aside_.grow(words_.size());
  if (!more_slots_.empty()) more_slots_.grow(items);
  numbered_ = items;
  note(kNoItem);
  policy_->grow(items);
  if (incoming_) incoming_->grow(items);
}

// ---------------------------------------------------------------------- facts for a policy ----

void Share::needed(ItemId item, std::uint32_t jobs) {
  const ItemId number = give_number(item);
  note({number, 0, kUnknownUse});
  bring_back(number);
  policy_->needed(number, jobs);
  if (told_incoming(number)) incoming_->needed(number, jobs);
}

void Share::scored(ItemId item, float score) {
  const ItemId number = give_number(item);
  note({number, 0, kUnknownUse});
  bring_back(number);
  policy_->scored(number, score);
  if (incoming_) incoming_->scored(number, score);
}

void Share::epoch_began(JobId job, std::uint32_t epoch) {
  note(kNoItem);
  policy_->epoch_began(job, epoch);
  if (incoming_) incoming_->epoch_began(job, epoch);
}

// ---------------------------------------------------------------------- changing the policy ----

void Share::swap_policy(std::unique_ptr<EvictionPolicy> policy) {
  BF_CHECK(policy != nullptr);
  incoming_ = std::move(policy);
  adopted_ = 0;
}

// Those that the incoming policy is shown next.
void Share::announce_residents(std::size_t limit) {
  std::vector<Access> next;
  std::size_t budget = 64 * limit;  // as in `adopt`
  for (std::size_t at = adopted_; at < numbered_ && next.size() < limit; ++at) {
    if (at % 64 == 0 && words_[at / 64].resident == 0) {
      if (budget < 64) break;
      budget -= 64;
      at += 63;
      continue;
    }
    const ItemId item(static_cast<std::uint32_t>(at));
    if (is_resident(item)) next.push_back({item, slots_of(item), kUnknownUse});
  }
  incoming_->announced(next);
}

bool Share::adopt(std::size_t limit, std::vector<ItemId>* adopted) {
  if (!incoming_) return true;
  note(kNoItem);
  if (incoming_->wants_announcements()) announce_residents(limit);
  // A slice is bounded in words, too: a large share may hold few items.
  for (std::size_t budget = 64 * limit; adopted_ < numbered_; ++adopted_) {
    if (adopted_ % 64 == 0 && words_[adopted_ / 64].resident == 0) {
      if (budget < 64) return false;
      budget -= 64;
      adopted_ += 63;
      continue;
    }
    const ItemId item(static_cast<std::uint32_t>(adopted_));
    if (!is_resident(item)) continue;
    if (limit == 0) return false;
    --limit;
    const Access access{item, slots_of(item), kUnknownUse};
    incoming_->missed(access);
    incoming_->inserted(access);
    if (adopted != nullptr) adopted->push_back(named(item));
  }
  policy_ = std::move(incoming_);
  aside_ = {};
  aside_count_ = 0;
  return true;
}

}  // namespace batchflow::engine
