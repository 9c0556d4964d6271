#include "policies/conformance/eviction_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "policies/conformance/conformance.h"

namespace batchflow::conformance {
namespace {

void must(bool kept, const char* rule) {
  if (!kept) throw Violation(rule);
}

}  // namespace

EvictionUse::EvictionUse(const engine::PolicyChoice& choice, std::uint64_t seed)
    : random_(hash(seed, 71)),
      choice_(choice),
      items_(1 + random_.below(120)),
      most_slots_(random_.below(2) == 0 ? 1 : 1 + random_.below(9)),
      capacity_(random_.below(4) == 0 ? random_.below(4) : 1 + random_.below(200)),
      share_(items_, capacity_, choice_.make_eviction(items_, capacity_, Random(seed))) {}

void EvictionUse::run(int steps) {
  for (int step = 0; step < steps; ++step) {
    evicted_.clear();
    act();
    check();
  }
}

void EvictionUse::act() {
  switch (random_.below(24)) {
    case 0:
      return pin();
    case 1:
      return unpin();
    case 2:
      return remove();
    case 3:
      return forget();
    case 4:
      return random_.below(6) == 0 ? resize() : access();
    case 5:
      return shrink();
    case 6:
      return force();
    case 7:
      return random_.below(20) == 0 ? swap() : access();
    case 8:
      return adopt();
    case 9:
      return random_.below(10) == 0 ? grow() : access();
    case 10:
      return report_facts();
    case 11:
      return read_early();
    default:
      return access();
  }
}

engine::Access EvictionUse::draw_access() {
  const std::uint32_t item = static_cast<std::uint32_t>(
      std::min(random_.below(items_), random_.below(items_)));  // some more often than others
  const std::uint64_t next = random_.below(4) == 0   ? engine::kUnknownUse
                             : random_.below(3) == 0 ? engine::kNeverUsed
                                                     : now_ + random_.below(500);
  ++now_;
  return {ItemId(item), 1 + random_.below(most_slots_), next};
}

void EvictionUse::access() {
  const engine::Access access = draw_access();
  const bool was_here = model_.contains(access.item.value);
  const engine::Share::Result result = share_.access(access, evicted_);
  must((result == engine::Share::Result::hit) == was_here, "a request of a resident is a hit");
  apply_evicted();
  if (result == engine::Share::Result::inserted) model_[access.item.value] = {access.slots};
  note(static_cast<std::uint64_t>(result));
}

void EvictionUse::force() {
  const engine::Access access = draw_access();
  if (model_.contains(access.item.value)) return;
  Slots pinned = 0;
  for (const auto& [item, resident] : model_) pinned += resident.pins > 0 ? resident.slots : 0;
  const bool room = pinned + access.slots <= capacity_;
  must(share_.insert_forced(access, evicted_) == room,
       "what must be kept finds room, if what is pinned leaves it some");
  apply_evicted();
  if (room) model_[access.item.value] = {access.slots};
}

void EvictionUse::read_early() {
  const engine::Access access = draw_access();
  if (model_.contains(access.item.value)) return;
  const engine::EarlyRead answer = share_.insert_early(access, evicted_);
  apply_evicted();
  if (answer == engine::EarlyRead::yes) model_[access.item.value] = {access.slots};
  note(static_cast<std::uint64_t>(answer));
}

void EvictionUse::pin() {
  if (model_.empty()) return;
  auto& [item, resident] = *any_resident();
  share_.pin(ItemId(item));
  ++resident.pins;
}

void EvictionUse::unpin() {
  const auto pinned = std::find_if(model_.begin(), model_.end(),
                                   [](const auto& entry) { return entry.second.pins > 0; });
  if (pinned == model_.end()) return;
  share_.unpin(ItemId(pinned->first));
  --pinned->second.pins;
}

void EvictionUse::remove() {
  if (model_.empty()) return;
  const auto resident = any_resident();
  share_.remove(ItemId(resident->first), engine::Removal::invalidated);
  model_.erase(resident);
}

void EvictionUse::forget() {
  const ItemId item(static_cast<std::uint32_t>(random_.below(items_)));
  if (!model_.contains(item.value)) share_.forget(item);
}

void EvictionUse::resize() {
  capacity_ = random_.below(3) == 0 ? random_.below(20) : random_.below(220);
  share_.set_capacity(capacity_);
}

void EvictionUse::shrink() {
  const std::size_t limit = random_.below(5);
  std::size_t left = limit;
  const bool done = share_.shrink(left, evicted_);
  must(evicted_.size() <= limit - left, "no more leave than were allowed to");
  apply_evicted();
  must(done == (share_.used() <= capacity_ || share_.evictable() == 0),
       "a share that is made smaller shrinks until it fits");
  must(done || left == 0, "a share that is made smaller goes on shrinking");
}

void EvictionUse::swap() {
  share_.swap_policy(choice_.make_eviction(items_, capacity_, Random(now_)));
}

void EvictionUse::adopt() {
  std::vector<ItemId> adopted;
  const std::size_t limit = 1 + random_.below(30);
  share_.adopt(limit, &adopted);
  must(adopted.size() <= limit, "no more are adopted than were allowed to");
  for (const ItemId item : adopted)
    must(model_.contains(item.value), "what is adopted is resident");
}

void EvictionUse::grow() {
  items_ += random_.below(100);
  share_.grow(items_);
}

void EvictionUse::report_facts() {
  const ItemId item(static_cast<std::uint32_t>(random_.below(items_)));
  share_.scored(item, static_cast<float>(random_.unit()));
  share_.epoch_began(JobId(1), static_cast<std::uint32_t>(now_));
  if (model_.contains(item.value)) {
    share_.needed(item, static_cast<std::uint32_t>(random_.below(3)));
  }
}

std::map<std::uint32_t, EvictionUse::Resident>::iterator EvictionUse::any_resident() {
  auto at = model_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.below(model_.size())));
  return at;
}

void EvictionUse::apply_evicted() {
  for (const ItemId item : evicted_) {
    const auto resident = model_.find(item.value);
    must(resident != model_.end(), "only residents leave");
    must(resident->second.pins == 0, "nothing that is pinned leaves");
    model_.erase(resident);
    note(item.value);
  }
}

void EvictionUse::note(std::uint64_t value) {
  digest_ = hash(digest_, value);
}

void EvictionUse::check() {
  Slots used = 0, pinned = 0;
  for (const auto& [item, resident] : model_) {
    used += resident.slots;
    pinned += resident.pins > 0 ? resident.slots : 0;
    must(share_.resident(ItemId(item)) && share_.pinned(ItemId(item)) == (resident.pins > 0) &&
             share_.slots(ItemId(item)) == resident.slots,
         "what was inserted stays as it is until it leaves");
  }
  must(share_.residents() == model_.size() && share_.used() == used &&
           share_.evictable() == used - pinned && share_.capacity() == capacity_,
       "a share counts what it has");
  if (share_.counters().refused > 0) {
    throw Violation(fmt::format("a victim was refused: {}",
                                engine::refused_name(share_.counters().last_refused)));
  }
}

}  // namespace batchflow::conformance
