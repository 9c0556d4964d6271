// One share of a place: which items are resident, how many slots they take, which are pinned, and
// the eviction policy that names what leaves. The engine keeps its cache in shares, and a trace is
// replayed through one. Both use the functions below, so the two cannot differ.
//
// The policy proposes and the share disposes. Whatever the policy answers, the share guarantees:
// the slots used never exceed the capacity (except while the share is being shrunk), no pinned item
// leaves, and the policy is told of every item that enters or leaves. A proposal that breaks a rule
// is refused and counted.
//
// The share knows no bytes: its owner carries out what is reported as inserted and evicted.
//
// Pins belong to the share. A policy hears of a pin only when it names a pinned item: it puts the
// item aside until the share says that it may leave. An item is put aside at most once for each
// time that it is pinned or used. So a victim costs no more where thousands are pinned, and a
// request passes by at most some of them.
//
// Memory: two bits an item, zero until it is used; four bytes an item once a size other than one
// slot is seen; and a table of the pinned items. A share of very many items numbers those that are
// named (item_numbers.h), and its policy knows them by their numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/types.h"
#include "core/base/zero_array.h"
#include "core/engine/item_numbers.h"
#include "core/engine/pin_table.h"
#include "core/engine/policy.h"
#include "core/engine/question.h"

namespace batchflow::engine {

// Why a proposal of a policy was not carried out.
enum class Refused : std::uint8_t {
  none,          // nothing was ever refused
  no_victim,     // it named no item although there was one to name
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
  // Items are named by ids in [0, items). With `numbers`, the policy is made for as many items as
  // these have room for.
  Share(std::size_t items, Slots capacity, std::unique_ptr<EvictionPolicy> policy,
        std::shared_ptr<ItemNumbers> numbers = nullptr);
  Share(Share&&) = delete;  // policies are handed a reference to the pins
  ~Share();

  // -------------------------------------------------------------------- requests and residents --

  enum class Result : std::uint8_t {
    hit,
    inserted,
    bypassed,  // not resident after this: serve it once. Others may have been evicted even so.
  };
  // A request for an item. On a miss the item is inserted, if the policy admits it and there is or
  // can be made room. What leaves is appended to `evicted`, in order.
  // REQUIRES: access.item is in range, 1 <= access.slots < 2^32.
  Result access(const Access& access, std::vector<ItemId>& evicted);
  // Requests that are about to come, for policies that want to know.
  bool wants_announcements() const { return policy_->wants_announcements(); }
  void announce(std::vector<Access>& requests);
  // Requests for residents that the policy is not told of one by one.
  void count_hits(std::uint64_t hits) { counters_.hits += hits; }
  // Lets in an item that must be somewhere, such as a prepared block. The policy is not asked
  // whether, only what leaves for it. Where it names nothing that may leave, the unpinned resident
  // with the lowest id leaves. False: what is not pinned does not suffice, and nothing was evicted.
  // REQUIRES: as above, and the item is not resident.
  bool insert_forced(const Access& access, std::vector<ItemId>& evicted);
  // Lets in an item that nothing has requested, if the policy wants it and there is or can be made
  // room. No request is counted.
  // REQUIRES: as above, and the item is not resident.
  EarlyRead insert_early(const Access& access, std::vector<ItemId>& evicted);
  // A resident leaves because the owner says so, pinned or not; its pins go with it.
  // REQUIRES: resident(item)
  void remove(ItemId item, Removal why);
  // The id will name something else: the policy forgets its ghosts and counts.
  // REQUIRES: !resident(item)
  void forget(ItemId item);

  bool resident(ItemId item) const { return is_resident(number_of(item)); }
  // The resident with the lowest id (or number) that may leave; none when all are pinned.
  ItemId lowest_unpinned() { return named(lowest_unpinned_number()); }
  // Loads the memory that `resident` will look at; worth it for items that are scattered.
  void prefetch(ItemId item) const {
    if (numbers_) return;
    if (item.value < numbered_) {
      __builtin_prefetch(&words_[item.value >> 6]);
      policy_->prefetch(item);
    }
    pins_.prefetch(item);
  }
  std::size_t residents() const { return residents_; }
  // REQUIRES: resident(item)
  Slots slots(ItemId item) const { return slots_of(number_of(item)); }

  // A pinned item leaves only by `remove`. Pins are counted.
  // REQUIRES: resident(item)
  void pin(ItemId item);
  // REQUIRES: pinned(item)
  void unpin(ItemId item);
  bool pinned(ItemId item) const { return pinned_all_ > 0 || has_pins(number_of(item)); }
  // Until as many unpin_all(), nothing may leave.
  void pin_all() { ++pinned_all_; }
  // REQUIRES: pin_all() was called more often
  void unpin_all();
  // From now on `*asked` says what the policy is asked.
  void note_questions(Asked* asked) { asked_ = asked; }
  // From now on `*freed` grows by one whenever something that was pinned may leave, or has left.
  void count_freed(std::uint64_t* freed) { freed_ = freed; }
  // The item is from before the engine (core/engine/kept_before.h). It counts until it leaves, here
  // and in `*all`, which outlives the share and is the same for each item.
  // REQUIRES: resident(item)
  void note_from_before(ItemId item, std::uint64_t* all);
  std::uint64_t from_before() const { return from_before_count_; }

  // ---------------------------------------------------------------------------------- capacity --

  Slots used() const { return used_; }
  Slots capacity() const { return capacity_; }
  Slots evictable() const { return pinned_all_ > 0 ? 0 : used_ - pinned_slots_; }
  // A share that is made smaller keeps what it has until `shrink` has evicted it. Until then
  // `access` lets nothing in.
  void set_capacity(Slots capacity);
  // Evicts until the slots used fit the capacity, or all that is left is pinned; then true. Each
  // item that leaves, or is found to be pinned, takes one off `limit`; at 0 it ends.
  bool shrink(std::size_t& limit, std::vector<ItemId>& evicted);
  std::size_t items() const { return items_; }
  void grow(std::size_t items);

  // ------------------------------------------------------------------------- facts for a policy --

  void needed(ItemId item, std::uint32_t jobs);
  void scored(ItemId item, float score);
  void epoch_began(JobId job, std::uint32_t epoch);

  // ------------------------------------------------------------------------ changing the policy --

  // `policy` takes over once `adopt` has shown it all residents. Until then the present policy
  // answers. A swap before that replaces the newcomer.
  void swap_policy(std::unique_ptr<EvictionPolicy> policy);
  // Shows at most `limit` residents, in order of id or number, to the new policy as if they came in
  // just now. Appends them to `adopted`, if given, so that the owner can repeat what it alone knows
  // of them
  // (`needed`). True when nothing is left to adopt and the new policy answers.
  bool adopt(std::size_t limit, std::vector<ItemId>* adopted = nullptr);
  bool adopting() const { return incoming_ != nullptr; }
  const EvictionPolicy& policy() const { return *policy_; }  // which answers

  const ShareCounters& counters() const { return counters_; }

 private:
  // Of 64 items. The two stand side by side because code that looks at one looks at the other.
  struct Word {
    std::uint64_t resident;
    std::uint64_t pinned;
  };
  // What the policy named, if it may leave. `put_off`: so many victims were pinned that the policy
  // was asked no further.
  struct Victim {
    ItemId item = ItemId::none();
    Refused reason = Refused::none;
    bool put_off = false;
  };
  static constexpr std::uint64_t bit_of(ItemId item) {
    return std::uint64_t{1} << (item.value & 63);
  }

  // What the policy calls the item: its number, which is its id where none are given. None: the
  // item has no number yet. All below names items by their numbers.
  ItemId number_of(ItemId item) const { return numbers_ ? numbers_->find(item) : item; }
  ItemId give_number(ItemId item);
  Access numbered(Access access);
  ItemId named(ItemId number) const {
    return numbers_ && !number.is_none() ? numbers_->item(number) : number;
  }

  bool is_resident(ItemId number) const {
    return number.value < numbered_ && (words_[number.value >> 6].resident & bit_of(number)) != 0;
  }
  bool has_pins(ItemId number) const {
    return number.value < numbered_ && (words_[number.value >> 6].pinned & bit_of(number)) != 0;
  }
  Slots slots_of(ItemId number) const {
    return more_slots_.empty() ? 1 : 1 + more_slots_[number.value];
  }
  void note(const Access& access) {
    if (asked_ != nullptr) asked_->note(*this, access);
  }
  void note_freed() {
    if (freed_ != nullptr) ++*freed_;
  }
  bool told_incoming(ItemId item) const { return incoming_ != nullptr && item.value < adopted_; }
  Result request(const Access& access, std::vector<ItemId>& evicted);
  void grow_numbers(std::size_t items);
  void announce_residents(std::size_t limit);
  ItemId lowest_unpinned_number();
  Admission ask_admission(const Access& access);
  void evict_named(const Access& newcomer, bool until_fits, std::vector<ItemId>& evicted);
  bool make_room(const Access& newcomer, bool forced, std::vector<ItemId>& evicted);
  bool fits(const Access& newcomer, bool forced) const;
  Victim ask_victim(const Access& newcomer, std::size_t& looks);
  Refused objection(ItemId proposal) const;
  void refuse(Refused reason);
  bool is_put_aside(ItemId item) const {
    return aside_count_ != 0 && (aside_[item.value >> 6] & bit_of(item)) != 0;
  }
  void put_aside(ItemId item);
  void bring_back(ItemId item);
  void free_pinned(ItemId item);
  void evict(ItemId item, std::vector<ItemId>& evicted);
  void insert(const Access& access);
  void leave(ItemId item, Removal why);
  void forget_from_before(ItemId item);

  std::size_t items_ = 0;     // ids are below
  std::size_t numbered_ = 0;  // numbers are below
  Slots capacity_;
  Slots used_ = 0;
  Slots pinned_slots_ = 0;
  std::uint32_t pinned_all_ = 0;
  // They stand beside the members above because dividing memory looks at both, of all shares.
  ShareCounters counters_;
  std::size_t residents_ = 0;
  ZeroArray<Word> words_;
  ZeroArray<std::uint32_t> more_slots_;  // slots - 1 of the residents; empty while all have one
  std::size_t lowest_word_ = 0;          // no resident stands in an earlier word
  PinTable pins_;
  ZeroArray<std::uint64_t> aside_;  // a bit an item: the policy knows it is pinned
  std::size_t aside_count_ = 0;
  std::shared_ptr<ItemNumbers> numbers_;  // null: the items' ids are their numbers
  std::unique_ptr<EvictionPolicy> policy_;
  Asked* asked_ = nullptr;
  std::unique_ptr<EvictionPolicy> incoming_;
  std::size_t adopted_ = 0;  // the incoming policy knows of all ids below
  std::uint64_t* freed_ = nullptr;
  ZeroArray<std::uint64_t> from_before_;  // a bit an item
  std::uint64_t from_before_count_ = 0;
  std::uint64_t* from_before_all_ = nullptr;
};

}  // namespace batchflow::engine
