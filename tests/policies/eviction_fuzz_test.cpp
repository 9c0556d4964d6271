// Every registered eviction policy under random accesses, pins, removals, resizes, growth and
// swaps, against a model that knows only which items are resident. No proposal of a built-in policy
// may ever be refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/policies/eviction_replay.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::eviction_fuzz_test {

namespace {

class Fuzz {
 public:
  Fuzz(const engine::PolicyEntry& entry, std::uint64_t seed)
      : random_(hash(seed, 71)),
        choice_{&entry, Parameters(entry.parameters)},
        items_(1 + random_.below(120)),
        most_slots_(random_.below(2) == 0 ? 1 : 1 + random_.below(9)),
        capacity_(random_.below(4) == 0 ? random_.below(4) : 1 + random_.below(200)),
        share_(items_, capacity_, make_policy(choice_, items_, capacity_, seed)) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      evicted_.clear();
      act();
      check();
    }
  }
  std::uint64_t digest() const { return digest_; }

 private:
  struct Resident {
    Slots slots;
    int pins = 0;
  };

  void act() {
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

  engine::Access draw_access() {
    const std::uint32_t item = static_cast<std::uint32_t>(
        std::min(random_.below(items_), random_.below(items_)));  // some more often than others
    const std::uint64_t next = random_.below(4) == 0   ? engine::kUnknownUse
                               : random_.below(3) == 0 ? engine::kNeverUsed
                                                       : now_ + random_.below(500);
    ++now_;
    return {ItemId(item), 1 + random_.below(most_slots_), next};
  }
  void access() {
    const engine::Access access = draw_access();
    const bool was_here = model_.contains(access.item.value);
    const engine::Share::Result result = share_.access(access, evicted_);
    CHECK((result == engine::Share::Result::hit) == was_here);
    apply_evicted();
    if (result == engine::Share::Result::inserted) model_[access.item.value] = {access.slots};
    note(static_cast<std::uint64_t>(result));
  }
  void force() {
    const engine::Access access = draw_access();
    if (model_.contains(access.item.value)) return;
    Slots pinned = 0;
    for (const auto& [item, resident] : model_) pinned += resident.pins > 0 ? resident.slots : 0;
    const bool room = pinned + access.slots <= capacity_;
    CHECK(share_.insert_forced(access, evicted_) == room);
    apply_evicted();
    if (room) model_[access.item.value] = {access.slots};
  }
  void read_early() {
    const engine::Access access = draw_access();
    if (model_.contains(access.item.value)) return;
    const engine::EarlyRead answer = share_.insert_early(access, evicted_);
    apply_evicted();
    if (answer == engine::EarlyRead::yes) model_[access.item.value] = {access.slots};
    note(static_cast<std::uint64_t>(answer));
  }
  void pin() {
    if (model_.empty()) return;
    auto& [item, resident] = *any_resident();
    share_.pin(ItemId(item));
    ++resident.pins;
  }
  void unpin() {
    const auto pinned = std::find_if(model_.begin(), model_.end(),
                                     [](const auto& entry) { return entry.second.pins > 0; });
    if (pinned == model_.end()) return;
    share_.unpin(ItemId(pinned->first));
    --pinned->second.pins;
  }
  void remove() {
    if (model_.empty()) return;
    const auto resident = any_resident();
    share_.remove(ItemId(resident->first), engine::Removal::invalidated);
    model_.erase(resident);
  }
  void forget() {
    const ItemId item(static_cast<std::uint32_t>(random_.below(items_)));
    if (!model_.contains(item.value)) share_.forget(item);
  }
  void resize() {
    capacity_ = random_.below(3) == 0 ? random_.below(20) : random_.below(220);
    share_.set_capacity(capacity_);
  }
  void shrink() {
    const std::size_t limit = random_.below(5);
    std::size_t left = limit;
    const bool done = share_.shrink(left, evicted_);
    CHECK(evicted_.size() <= limit - left);
    apply_evicted();
    CHECK(done == (share_.used() <= capacity_ || share_.evictable() == 0));
    CHECK((done || left == 0));
  }
  void swap() { share_.swap_policy(make_policy(choice_, items_, capacity_, now_)); }
  void adopt() {
    std::vector<ItemId> adopted;
    const std::size_t limit = 1 + random_.below(30);
    share_.adopt(limit, &adopted);
    CHECK(adopted.size() <= limit);
    for (ItemId item : adopted) CHECK(model_.contains(item.value));
  }
  void grow() {
    items_ += random_.below(100);
    share_.grow(items_);
  }
  void report_facts() {
    const ItemId item(static_cast<std::uint32_t>(random_.below(items_)));
    share_.scored(item, static_cast<float>(random_.unit()));
    share_.epoch_began(JobId(1), static_cast<std::uint32_t>(now_));
    if (model_.contains(item.value)) {
      share_.needed(item, static_cast<std::uint32_t>(random_.below(3)));
    }
  }

  std::map<std::uint32_t, Resident>::iterator any_resident() {
    auto at = model_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_.below(model_.size())));
    return at;
  }
  void apply_evicted() {
    for (ItemId item : evicted_) {
      const auto resident = model_.find(item.value);
      REQUIRE(resident != model_.end());
      CHECK(resident->second.pins == 0);
      model_.erase(resident);
      note(item.value);
    }
  }
  void note(std::uint64_t value) { digest_ = hash(digest_, value); }

  void check() {
    Slots used = 0, pinned = 0;
    for (const auto& [item, resident] : model_) {
      used += resident.slots;
      pinned += resident.pins > 0 ? resident.slots : 0;
      REQUIRE(share_.resident(ItemId(item)));
      REQUIRE(share_.pinned(ItemId(item)) == (resident.pins > 0));
      REQUIRE(share_.slots(ItemId(item)) == resident.slots);
    }
    REQUIRE(share_.residents() == model_.size());
    REQUIRE(share_.used() == used);
    REQUIRE(share_.evictable() == used - pinned);
    REQUIRE(share_.capacity() == capacity_);
    CAPTURE(engine::refused_name(share_.counters().last_refused));
    REQUIRE(share_.counters().refused == 0);
  }

  Random random_;
  engine::PolicyChoice choice_;
  std::size_t items_;
  std::uint64_t most_slots_;
  Slots capacity_;
  engine::Share share_;
  std::map<std::uint32_t, Resident> model_;
  std::vector<ItemId> evicted_;
  std::uint64_t now_ = 0;
  std::uint64_t digest_ = 0;
};

std::uint64_t fuzz_one(const engine::PolicyEntry& entry, std::uint64_t seed, int steps) {
  INFO(fmt::format("replay: BATCHFLOW_SEED={} test_policies -tc='*under random*'  ({})", seed,
                   entry.name));
  Fuzz fuzz(entry, seed);
  fuzz.run(steps);
  return fuzz.digest();
}

void fuzz_all(std::uint64_t seeds, int steps) {
  const char* one_seed = std::getenv("BATCHFLOW_SEED");
  const std::uint64_t first = one_seed != nullptr ? std::strtoull(one_seed, nullptr, 10) : 0;
  const std::uint64_t end = one_seed != nullptr ? first + 1 : seeds;
  for (const engine::PolicyEntry* entry : tested_policies().of_kind(engine::PolicyKind::eviction)) {
    for (std::uint64_t seed = first; seed < end; ++seed) fuzz_one(*entry, seed, steps);
  }
}

}  // namespace

TEST_CASE("policies under random use keep to the rules") {
  fuzz_all(30, 400);
}
TEST_SUITE("long") {
  TEST_CASE("policies under random use keep to the rules, many seeds") {
    fuzz_all(3000, 1500);
  }
}

TEST_CASE("the same seed gives the same evictions") {
  for (const engine::PolicyEntry* entry : tested_policies().of_kind(engine::PolicyKind::eviction)) {
    CAPTURE(entry->name);
    for (std::uint64_t seed = 1000; seed < 1005; ++seed) {
      CHECK(fuzz_one(*entry, seed, 500) == fuzz_one(*entry, seed, 500));
    }
  }
}

TEST_CASE("all policies have a name, help and parameters with valid defaults") {
  for (const engine::PolicyEntry* entry : tested_policies().entries()) {
    CAPTURE(entry->name);
    CHECK(!entry->name.empty());
    CHECK(entry->name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          std::string_view::npos);
    CHECK(entry->help.size() > 20);
    Parameters parameters(entry->parameters);
    for (const Parameter& parameter : entry->parameters) {
      CHECK(!parameter.help.empty());
      CHECK_NOTHROW(parameters.set(parameter.name, parameter.default_value));
    }
    for (const engine::PolicyEntry* other : tested_policies().of_kind(entry->kind())) {
      CHECK((other == entry || other->name != entry->name));
    }
  }
}

}  // namespace batchflow::test::eviction_fuzz_test
