// One share of a place: which items are resident, how many slots they take, who is pinned, and the
// eviction policy that says who leaves. The engine keeps its cache in shares, and a trace is
// replayed through one; both go through the functions below, so the two cannot differ.
//
// The share disposes what the policy proposes. It guarantees, whatever the policy answers: no more
// slots are used than the capacity (but while the share is being shrunk), no pinned item leaves,
// and the policy is told of every item that enters or leaves. A proposal that breaks a rule is
// refused and counted.
//
// Bytes are not here: the owner carries out what is reported as inserted and evicted.
//
// Pins belong to the share. A policy hears of one only when it names a pinned item: it puts it
// aside until the share says that it may leave. An item is put aside at most once for each time
// that it is pinned or used, so victims cost no more where thousands are pinned; and no request
// passes by more than some of them.
//
// Memory: two bits an item, zero until it is used, four bytes an item once a size other than one
// slot is seen, and a table of the pinned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/types.h"
#include "core/base/zero_array.h"
#include "core/engine/pin_table.h"
#include "core/engine/policy.h"

namespace batchflow::engine {

// Why a proposal of a policy was not carried out.
enum class Refused : std::uint8_t {
  none,          // nothing was ever refused
  no_victim,     // it named nobody although there was somebody to name
  out_of_range,  // there is no such item
  not_resident,
  pinned,  // and the policy knew
};
inline constexpr std::size_t kRefusedReasons = 5;
std::string_view refused_name(Refused reason);

struct ShareCounters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  Slots slots_requested = 0;
  Slots slots_missed = 0;
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t refused = 0;  // proposals of the policy, for the reasons below
  std::array<std::uint64_t, kRefusedReasons> refused_by_reason{};
  Refused last_refused = Refused::none;
};

class Share {
 public:
  // Items are named by ids in [0, items).
  Share(std::size_t items, Slots capacity, std::unique_ptr<EvictionPolicy> policy);
  Share(Share&&) = delete;  // policies are handed a reference to the pins

  // -------------------------------------------------------------------- requests and residents --

  enum class Result : std::uint8_t {
    hit,
    inserted,
    bypassed,  // not resident after this: serve it once. Others may have been evicted even so.
  };
  // Someone asks for an item; on a miss it is inserted if the policy admits it and there is or can
  // be made room. Who leaves is appended to `evicted`, in order.
  // REQUIRES: access.item is in range, 1 <= access.slots < 2^32.
  Result access(const Access& access, std::vector<ItemId>& evicted);
  // Lets an item in that must be somewhere, a prepared block: the policy is not asked whether, only
  // who leaves for it, and where it names nobody that may leave, the unpinned resident of the
  // lowest id does. False: what is not pinned does not suffice; nothing was evicted.
  // REQUIRES: as above, and the item is not resident.
  bool insert_forced(const Access& access, std::vector<ItemId>& evicted);
  // A resident leaves on the owner's word, pinned or not (its pins go with it).
  // REQUIRES: resident(item)
  void remove(ItemId item, Removal why);
  // The id will name something else: the policy forgets its ghosts and counts.
  // REQUIRES: !resident(item)
  void forget(ItemId item);

  bool resident(ItemId item) const {
    return item.value < items_ && (words_[item.value >> 6].resident & bit_of(item)) != 0;
  }
  // Asks memory for what `resident` will look at; worth it for items that are scattered.
  // The resident of the lowest id that may leave; none when all are pinned.
  ItemId lowest_unpinned();
  void prefetch(ItemId item) const {
    if (item.value < items_) __builtin_prefetch(&words_[item.value >> 6]);
    pins_.prefetch(item);
  }
  std::size_t residents() const { return residents_; }
  Slots slots(ItemId item) const { return more_slots_.empty() ? 1 : 1 + more_slots_[item.value]; }

  // A pinned item does not leave but by `remove`. Pins are counted.
  // REQUIRES: resident(item)
  void pin(ItemId item);
  // REQUIRES: pinned(item)
  void unpin(ItemId item);
  bool pinned(ItemId item) const {
    return item.value < items_ && (words_[item.value >> 6].pinned & bit_of(item)) != 0;
  }
  // From now on counts there whenever something that was pinned may leave, or has left.
  void count_freed(std::uint64_t* freed) { freed_ = freed; }

  // ---------------------------------------------------------------------------------- capacity --

  Slots used() const { return used_; }
  Slots capacity() const { return capacity_; }
  Slots evictable() const { return used_ - pinned_slots_; }
  // A smaller share keeps what it has until `shrink` has evicted it, and lets nothing in by
  // `access` meanwhile.
  void set_capacity(Slots capacity);
  // Evicts until no more is used than the capacity, or all that is left is pinned: then true. Each
  // item that leaves or is found to be pinned takes one off `limit`; at 0 it ends.
  bool shrink(std::size_t& limit, std::vector<ItemId>& evicted);
  std::size_t items() const { return items_; }
  void grow(std::size_t items);

  // ------------------------------------------------------------------------- facts for a policy --

  void needed(ItemId item, std::uint32_t jobs);
  void scored(ItemId item, float score);
  void epoch_began(JobId job, std::uint32_t epoch);

  // ------------------------------------------------------------------------ changing the policy --

  // `policy` takes over once `adopt` has shown it all residents; until then the one there is
  // answers. A swap on top of an unfinished one replaces the newcomer.
  void swap_policy(std::unique_ptr<EvictionPolicy> policy);
  // Shows at most `limit` residents, in order of id, to the new policy as if they came in just now
  // and appends them to `adopted`, where given, so that the owner can repeat what it alone knows of
  // them (`needed`).
  // True when there is nothing left to adopt and the new policy answers.
  bool adopt(std::size_t limit, std::vector<ItemId>* adopted = nullptr);
  bool adopting() const { return incoming_ != nullptr; }

  const ShareCounters& counters() const { return counters_; }

 private:
  // Of 64 items, side by side: whoever looks at one looks at the other.
  struct Word {
    std::uint64_t resident;
    std::uint64_t pinned;
  };
  // What the policy named, if it may leave. `put_off`: so many were pinned that it was not asked
  // on.
  struct Victim {
    ItemId item = ItemId::none();
    Refused reason = Refused::none;
    bool put_off = false;
  };
  static constexpr std::uint64_t bit_of(ItemId item) {
    return std::uint64_t{1} << (item.value & 63);
  }

  void note_freed() {
    if (freed_ != nullptr) ++*freed_;
  }
  bool told_incoming(ItemId item) const { return incoming_ != nullptr && item.value < adopted_; }
  Admission tell_missed(const Access& access);
  void evict_named(const Access& newcomer, bool until_fits, std::vector<ItemId>& evicted);
  bool make_room(const Access& newcomer, bool forced, std::vector<ItemId>& evicted);
  bool fits(const Access& newcomer, bool forced) const;
  Victim ask_victim(const Access& newcomer, std::size_t& looks);
  Refused objection(ItemId proposal) const;
  void refuse(Refused reason);
  bool aside(ItemId item) const {
    return aside_count_ != 0 && (aside_[item.value >> 6] & bit_of(item)) != 0;
  }
  void put_aside(ItemId item);
  void bring_back(ItemId item);
  void free_pinned(ItemId item);
  void evict(ItemId item, std::vector<ItemId>& evicted);
  void insert(const Access& access);
  void leave(ItemId item, Removal why);

  std::size_t items_ = 0;
  Slots capacity_;
  Slots used_ = 0;
  Slots pinned_slots_ = 0;
  // Beside these, since whoever divides memory looks at both of all shares.
  ShareCounters counters_;
  std::size_t residents_ = 0;
  ZeroArray<Word> words_;
  ZeroArray<std::uint32_t> more_slots_;  // slots - 1 of the residents; empty while all have one
  std::size_t lowest_word_ = 0;          // no resident stands in an earlier word
  PinTable pins_;
  ZeroArray<std::uint64_t> aside_;  // a bit an item: the policy knows that it is pinned
  std::size_t aside_count_ = 0;
  std::unique_ptr<EvictionPolicy> policy_;
  std::unique_ptr<EvictionPolicy> incoming_;
  std::size_t adopted_ = 0;  // the incoming policy knows of all ids below
  std::uint64_t* freed_ = nullptr;
};

}  // namespace batchflow::engine
