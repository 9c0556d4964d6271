// Policies that break the rules, one rule each: what they propose is refused and counted, the
// engine stays whole, and ranks get what they were promised, or nothing.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/make.h"
#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

using namespace batchflow;
using namespace batchflow::test;

namespace {

// ---- allocation
class Overcommits final : public AllocationPolicy {
 public:
  explicit Overcommits(const PolicyContext&) {}
  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = place.capacity_bytes / place.shares[i].slot_bytes + 1;
    }
  }
};
class AsksForEverything final : public AllocationPolicy {
 public:
  explicit AsksForEverything(const PolicyContext&) {}
  void allocate(const PlaceView&, std::span<Slots> slots) override {
    std::fill(slots.begin(), slots.end(), UINT64_MAX);
  }
};
class GivesNothing final : public AllocationPolicy {  // which it may
 public:
  explicit GivesNothing(const PolicyContext&) {}
  void allocate(const PlaceView&, std::span<Slots> slots) override {
    std::fill(slots.begin(), slots.end(), 0);
  }
};

// ---- eviction
class WrongVictim : public EvictionPolicy {
 public:
  explicit WrongVictim(const EvictionContext& context) : resident_(context.items, false) {}
  void hit(const Access&) override {}
  Admission missed(const Access&) override { return Admission::insert; }
  void inserted(const Access& access) override { resident_[access.item.value] = true; }
  void removed(ItemId item, Removal) override { resident_[item.value] = false; }
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
  ItemId victim(const Access&) override {
    return pinned_.empty() ? first([](ItemId, bool here) { return here; }) : pinned_.front();
  }
};
class NamesStrangers final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const Access&) override {
    return first([](ItemId, bool here) { return !here; });
  }
};
class NamesOutOfRange final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const Access&) override { return ItemId(UINT32_MAX - 1); }
};
class NamesNobody final : public WrongVictim {
 public:
  using WrongVictim::WrongVictim;
  ItemId victim(const Access&) override { return ItemId::none(); }
};

// ---- selection
class TakesUnready final : public SelectionPolicy {
 public:
  explicit TakesUnready(const PolicyContext&) {}
  std::size_t choose(const SelectionView& view) override {
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      if (!view.candidates[i].ready) return i;
    }
    return 0;
  }
};
class TakesBeyond final : public SelectionPolicy {
 public:
  explicit TakesBeyond(const PolicyContext&) {}
  std::size_t choose(const SelectionView& view) override { return view.candidates.size(); }
};
class NeverTakes final : public SelectionPolicy {
 public:
  explicit NeverTakes(const PolicyContext&) {}
  std::size_t choose(const SelectionView&) override { return kNoChoice; }
};

// ---- dispatch
class StartsBeyond final : public DispatchPolicy {
 public:
  explicit StartsBeyond(const PolicyContext&) {}
  std::size_t next(const DispatchView& view) override { return view.candidates.size(); }
};
class NeverStarts final : public DispatchPolicy {
 public:
  explicit NeverStarts(const PolicyContext&) {}
  std::size_t next(const DispatchView&) override { return kNoChoice; }
};

// ---- scaling
class WantsFourBillion final : public ScalingPolicy {
 public:
  explicit WantsFourBillion(const PolicyContext&) {}
  std::uint32_t workers(const NodeView&) override { return UINT32_MAX; }
  std::uint32_t depth(const JobView&) override { return UINT32_MAX; }
};
class WantsNothing final : public ScalingPolicy {  // which it may
 public:
  explicit WantsNothing(const PolicyContext&) {}
  std::uint32_t workers(const NodeView&) override { return 0; }
  std::uint32_t depth(const JobView&) override { return 0; }
};

template <class Policy>
constexpr MakeAllocation kAllocation = &make_policy<AllocationPolicy, Policy>;
template <class Policy>
constexpr MakeSelection kSelection = &make_policy<SelectionPolicy, Policy>;
template <class Policy>
constexpr MakeDispatch kDispatch = &make_policy<DispatchPolicy, Policy>;
template <class Policy>
constexpr MakeScaling kScaling = &make_policy<ScalingPolicy, Policy>;
template <class Policy>
std::unique_ptr<EvictionPolicy> make_wrong(const EvictionContext& context) {
  return std::make_unique<Policy>(context);
}

enum class Ending {
  refused,  // refused, counted, and all is delivered in spite of it
  allowed,  // a poor policy, not a wrong one
  idle,     // nothing is refused, and nothing is delivered to relaxed jobs at least
};
struct Canary {
  PolicyEntry entry;
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
      {{"names-nobody", "", &make_wrong<NamesNobody>}, Ending::refused},
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
const PolicyList& list_with_canaries() {
  static const std::vector<const PolicyEntry*> entries = [] {
    const auto registered = tested_policies().entries();
    std::vector<const PolicyEntry*> all(registered.begin(), registered.end());
    for (const Canary& canary : canaries()) all.push_back(&canary.entry);
    return all;
  }();
  static const PolicyList list(entries);
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

TEST_CASE("an engine whose dispatch never dispatches moves no byte") {
  WorldPlan plan;
  plan.config = with_policy(PolicyKind::dispatch, "never-starts");
  SmallWorld world(plan, list_with_canaries());
  CHECK(!world.run());
  CHECK(world.moves() == 0);
  CHECK(world.deliveries() == 0);
  CHECK(world.engine().counters().reads == 0);
  CHECK(world.engine().counters().preparations == 0);
}

TEST_CASE("a canary of every kind that is replaced in mid-run leaves no trace") {
  const EngineConfig fallback;
  for_seeds("test_engine", "a canary of every kind*", 4, [&](std::uint64_t seed) {
    for (const Canary& canary : canaries()) {
      CAPTURE(canary.entry.name);
      const std::string kind(policy_kind_name(canary.entry.kind()));
      SmallWorld world(plan_of(seed), list_with_canaries());
      for (int i = 0; i < 30; ++i) world.step();
      world.change_policy(kind + "=" + std::string(canary.entry.name));
      if (canary.entry.kind() == PolicyKind::eviction) {
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
