// Policies that break the rules, one rule each: what they propose is refused and counted, the
// engine stays whole, and ranks get what they were promised, or nothing.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/make.h"
#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::canary_test {

namespace {

// ---- allocation
class Overcommits final : public engine::AllocationPolicy {
 public:
  explicit Overcommits(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = place.capacity_bytes / place.shares[i].slot_bytes + 1;
    }
  }
};
class AsksForEverything final : public engine::AllocationPolicy {
 public:
  explicit AsksForEverything(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView&, std::span<Slots> slots) override {
    std::fill(slots.begin(), slots.end(), UINT64_MAX);
  }
};
class GivesNothing final : public engine::AllocationPolicy {  // which it may
 public:
  explicit GivesNothing(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView&, std::span<Slots> slots) override {
    std::fill(slots.begin(), slots.end(), 0);
  }
};

// ---- eviction
class WrongVictim : public engine::EvictionPolicy {
 public:
  explicit WrongVictim(const engine::EvictionContext& context) : resident_(context.items, false) {}
  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override { resident_[access.item.value] = true; }
  void removed(ItemId item, engine::Removal) override { resident_[item.value] = false; }
  void pinned(ItemId item) override { pinned_.push_back(item); }
  void unpinned(ItemId item) override { std::erase(pinned_, item); }
  void resized(Slots) override {}
  void grow(std::size_t items) override { resident_.resize(items, false); }
  void forget(ItemId) override {}

 protected:
  template <class Wanted>
  ItemId first(Wanted wanted) const {
    for (std::uint32_t i = 0; i < resident_.size(); ++i) {
      if (wanted(ItemId(i), resident_[i])) return ItemId(i);
    }
    return ItemId::none();
  }
  std::vector<ItemId> pinned_;  // that it was told of

 private:
  std::vector<bool> resident_;
};
class NamesPinned final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const engine::Access&) override {
    return pinned_.empty() ? first([](ItemId, bool here) { return here; }) : pinned_.front();
  }
};
class NamesStrangers final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const engine::Access&) override {
    return first([](ItemId, bool here) { return !here; });
  }
};
class NamesOutOfRange final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const engine::Access&) override { return ItemId(UINT32_MAX - 1); }
};
class NamesNoItem final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const engine::Access&) override { return ItemId::none(); }
};

// ---- selection
class TakesUnready final : public engine::SelectionPolicy {
 public:
  explicit TakesUnready(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      if (!view.candidates[i].ready) return i;
    }
    return 0;
  }
};
class TakesBeyond final : public engine::SelectionPolicy {
 public:
  explicit TakesBeyond(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override { return view.candidates.size(); }
};
class NeverTakes final : public engine::SelectionPolicy {
 public:
  explicit NeverTakes(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView&) override { return engine::kNoChoice; }
};

// ---- dispatch
class StartsBeyond final : public engine::DispatchPolicy {
 public:
  explicit StartsBeyond(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override { return view.candidates.size(); }
};
class NeverStarts final : public engine::DispatchPolicy {
 public:
  explicit NeverStarts(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return engine::kNoChoice; }
};

// ---- scaling
class WantsFourBillion final : public engine::ScalingPolicy {
 public:
  explicit WantsFourBillion(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView&) override { return UINT32_MAX; }
  std::uint32_t depth(const engine::JobView&) override { return UINT32_MAX; }
};
class WantsNothing final : public engine::ScalingPolicy {  // which it may
 public:
  explicit WantsNothing(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView&) override { return 0; }
  std::uint32_t depth(const engine::JobView&) override { return 0; }
};

template <class Policy>
constexpr engine::MakeAllocation kAllocation =
    &policies::make_policy<engine::AllocationPolicy, Policy>;
template <class Policy>
constexpr engine::MakeSelection kSelection =
    &policies::make_policy<engine::SelectionPolicy, Policy>;
template <class Policy>
constexpr engine::MakeDispatch kDispatch = &policies::make_policy<engine::DispatchPolicy, Policy>;
template <class Policy>
constexpr engine::MakeScaling kScaling = &policies::make_policy<engine::ScalingPolicy, Policy>;
template <class Policy>
std::unique_ptr<engine::EvictionPolicy> make_wrong(const engine::EvictionContext& context) {
  return std::make_unique<Policy>(context);
}

enum class Ending {
  refused,  // refused, counted, and all is delivered in spite of it
  allowed,  // a poor policy, not a wrong one
  idle,     // nothing is refused, and nothing is delivered to relaxed jobs at least
};
struct Canary {
  engine::PolicyEntry entry;
  Ending ending;
};

const std::vector<Canary>& canaries() {
  static const std::vector<Canary> all = {
      {{"overcommits", "", kAllocation<Overcommits>}, Ending::refused},
      {{"asks-for-everything", "", kAllocation<AsksForEverything>}, Ending::refused},
      {{"gives-nothing", "", kAllocation<GivesNothing>}, Ending::allowed},
      {{"names-pinned", "", &make_wrong<NamesPinned>}, Ending::refused},
      {{"names-strangers", "", &make_wrong<NamesStrangers>}, Ending::refused},
      {{"names-out-of-range", "", &make_wrong<NamesOutOfRange>}, Ending::refused},
      {{"names-no-item", "", &make_wrong<NamesNoItem>}, Ending::refused},
      {{"takes-unready", "", kSelection<TakesUnready>}, Ending::refused},
      {{"takes-beyond", "", kSelection<TakesBeyond>}, Ending::refused},
      {{"never-takes", "", kSelection<NeverTakes>}, Ending::idle},
      {{"starts-beyond", "", kDispatch<StartsBeyond>}, Ending::refused},
      {{"never-starts", "", kDispatch<NeverStarts>}, Ending::idle},
      {{"wants-four-billion", "", kScaling<WantsFourBillion>}, Ending::refused},
      {{"wants-nothing", "", kScaling<WantsNothing>}, Ending::refused},
  };
  return all;
}

// The canaries beside what is registered.
const engine::PolicyList& list_with_canaries() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto registered = tested_policies().entries();
    std::vector<const engine::PolicyEntry*> all(registered.begin(), registered.end());
    for (const Canary& canary : canaries()) all.push_back(&canary.entry);
    return all;
  }();
  static const engine::PolicyList list(entries);
  return list;
}

WorldPlan plan_of(std::uint64_t seed) {
  WorldPlan plan;
  plan.seed = seed;
  plan.dram = seed % 2 == 0 ? 150'000 : 250'000;
  return plan;
}

void check_ending(Ending ending, SmallWorld& world, bool finished) {
  const std::uint64_t refused = world.engine().counters().refused_proposals;
  CHECK((refused > 0) == (ending == Ending::refused));
  CHECK(finished == (ending == Ending::refused || ending == Ending::allowed));
}

}  // namespace

TEST_CASE("a policy that breaks a rule is refused and breaks nothing") {
  for_seeds("test_engine", "a policy that breaks*", 6, [](std::uint64_t seed) {
    for (const Canary& canary : canaries()) {
      CAPTURE(canary.entry.name);
      WorldPlan plan = plan_of(seed);
      plan.config = with_policy(canary.entry.kind(), std::string(canary.entry.name));
      SmallWorld world(plan, list_with_canaries());
      const bool finished = world.run();
      check_ending(canary.ending, world, finished);
    }
  });
}

TEST_CASE("with a policy that never dispatches, an engine moves no byte") {
  WorldPlan plan;
  plan.config = with_policy(engine::PolicyKind::dispatch, "never-starts");
  SmallWorld world(plan, list_with_canaries());
  CHECK(!world.run());
  CHECK(world.moves() == 0);
  CHECK(world.deliveries() == 0);
  CHECK(world.engine().counters().reads == 0);
  CHECK(world.engine().counters().preparations == 0);
}

TEST_CASE("a canary of every kind that is replaced in mid-run leaves no trace") {
  const engine::EngineConfig fallback;
  for_seeds("test_engine", "a canary of every kind*", 4, [&](std::uint64_t seed) {
    for (const Canary& canary : canaries()) {
      CAPTURE(canary.entry.name);
      const std::string kind(engine::policy_kind_name(canary.entry.kind()));
      SmallWorld world(plan_of(seed), list_with_canaries());
      for (int i = 0; i < 30; ++i) world.step();
      world.change_policy(kind + "=" + std::string(canary.entry.name));
      if (canary.entry.kind() == engine::PolicyKind::eviction) {
        world.change_policy("eviction.prepared=" + std::string(canary.entry.name));
      }
      for (int i = 0; i < 40; ++i) world.step();
      for (const char* good : {"allocation=equal", "eviction=lru", "eviction.prepared=refcount",
                               "selection=ready-first", "dispatch=fifo", "scaling=static"}) {
        world.change_policy(good);
      }
      CHECK(world.run());
    }
  });
}

}  // namespace batchflow::test::canary_test
