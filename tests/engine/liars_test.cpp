// Policies that answer wrongly once, every other time or always, and rightly otherwise: each wrong
// answer is counted, that question is answered by the default, and no job waits for ever.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "policies/make.h"
#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::liars_test {

namespace {

// Which questions are answered wrongly, counted from 1: the n-th alone, or every so many.
struct Lies {
  std::uint64_t only = 0;
  std::uint64_t every = 0;
};
// What the policies below do, and how often they have done it. A test runs in one thread.
struct Lying {
  Lies lies;
  std::size_t answer = 0;
  std::uint64_t asked = 0;
  std::uint64_t lied = 0;

  bool now() {
    ++asked;
    const bool lie = lies.every != 0 ? asked % lies.every == 0 : asked == lies.only;
    lied += lie ? 1 : 0;
    return lie;
  }
};
Lying lying;  // NOLINT

class LyingDispatch final : public engine::DispatchPolicy {
 public:
  explicit LyingDispatch(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    return lying.now() ? view.candidates.size() + lying.answer : view.candidates.size() - 1;
  }
};

class LyingSelection final : public engine::SelectionPolicy {
 public:
  explicit LyingSelection(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    const auto ready =
        std::find_if(view.candidates.begin(), view.candidates.end(),
                     [](const engine::SelectionCandidate& one) { return one.ready; });
    if (ready == view.candidates.end()) return engine::kNoChoice;
    if (!lying.now()) return static_cast<std::size_t>(ready - view.candidates.begin());
    return view.candidates.size() + lying.answer;
  }
};

class LyingAllocation final : public engine::AllocationPolicy {
 public:
  explicit LyingAllocation(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const bool lie = lying.now();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      slots[i] = lie ? UINT64_MAX : place.capacity_bytes / place.shares.size() / share.slot_bytes;
    }
  }
};

class LyingScaling final : public engine::ScalingPolicy {
 public:
  explicit LyingScaling(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView& view) override {
    return lying.now() ? UINT32_MAX : view.workers_most;
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return lying.now() ? UINT32_MAX : std::min(4u, view.window);
  }
};

class LyingEviction final : public engine::EvictionPolicy {
 public:
  explicit LyingEviction(const engine::EvictionContext&) {}
  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override { residents_.push_back(access.item); }
  void removed(ItemId item, engine::Removal) override { std::erase(residents_, item); }
  void pinned(ItemId item) override { std::erase(residents_, item); }
  void unpinned(ItemId item) override { residents_.insert(residents_.begin(), item); }
  ItemId victim(const engine::Access&) override {
    if (lying.now()) return ItemId(UINT32_MAX - 1);
    return residents_.empty() ? ItemId::none() : residents_.front();
  }
  void resized(Slots) override {}
  void grow(std::size_t) override {}
  void forget(ItemId) override {}

 private:
  std::vector<ItemId> residents_;
};

// Takes a block when it has been ready for five milliseconds, and says when that is.
class TakesRipe final : public engine::SelectionPolicy {
 public:
  explicit TakesRipe(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    again_ = kNever;
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      const engine::SelectionCandidate& one = view.candidates[i];
      if (!one.ready) continue;
      if (one.ready_s >= .005) return i;
      const Duration left(static_cast<std::int64_t>((.005 - one.ready_s) * 1e9) + 1);
      again_ = std::min(again_, view.now + left);
    }
    return engine::kNoChoice;
  }
  Instant ask_again() override { return again_; }

 private:
  Instant again_ = kNever;
};

const std::vector<engine::PolicyEntry>& liars() {
  static const std::vector<engine::PolicyEntry> all = {
      {"lies", "", &policies::make_policy<engine::DispatchPolicy, LyingDispatch>},
      {"lies", "", &policies::make_policy<engine::SelectionPolicy, LyingSelection>},
      {"lies", "", &policies::make_policy<engine::AllocationPolicy, LyingAllocation>},
      {"lies", "", &policies::make_policy<engine::ScalingPolicy, LyingScaling>},
      {"lies", "",
       engine::MakeEviction(
           [](const engine::EvictionContext& context) -> std::unique_ptr<engine::EvictionPolicy> {
             return std::make_unique<LyingEviction>(context);
           })},
      {"takes-ripe", "", &policies::make_policy<engine::SelectionPolicy, TakesRipe>},
  };
  return all;
}
const engine::PolicyList& list_with_liars() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto registered = tested_policies().entries();
    std::vector<const engine::PolicyEntry*> all(registered.begin(), registered.end());
    for (const engine::PolicyEntry& liar : liars()) all.push_back(&liar);
    return all;
  }();
  static const engine::PolicyList list(entries);
  return list;
}

// The run ends, with each sample once an epoch and each lie counted. Returns how many there were.
std::uint64_t run_with(engine::PolicyKind kind, Lies lies, std::size_t answer, std::uint64_t seed) {
  WorldPlan plan;
  plan.seed = seed;
  plan.dram = seed % 2 == 0 ? 150'000 : 250'000;
  plan.config = with_policy(kind, "lies");
  lying = {lies, answer, 0, 0};
  SmallWorld world(plan, list_with_liars());
  CHECK(world.run());
  CHECK(world.refusals() == 0);
  const std::uint64_t refused = world.engine().counters().refused_proposals;
  CHECK(refused >= lying.lied);
  // Policies of blocks and of samples are one a share, and each answers for its own.
  if (kind == engine::PolicyKind::dispatch || kind == engine::PolicyKind::selection)
    CHECK(refused == lying.lied);
  return lying.lied;
}

}  // namespace

TEST_CASE("a policy that lies once, every other time or always stops no job") {
  for_seeds("test_engine", "a policy that lies once*", 4, [](std::uint64_t seed) {
    for (int kind = 0; kind < 5; ++kind) {
      CAPTURE(engine::policy_kind_name(static_cast<engine::PolicyKind>(kind)));
      for (const std::size_t answer : {std::size_t{0}, engine::kNoChoice / 2}) {
        // Memory is shared out few times.
        const bool often = static_cast<engine::PolicyKind>(kind) != engine::PolicyKind::allocation;
        for (const std::uint64_t only : {1, 2, often ? 7 : 3}) {
          CAPTURE(only);
          CHECK(run_with(static_cast<engine::PolicyKind>(kind), {only, 0}, answer, seed) == 1);
        }
        CHECK(run_with(static_cast<engine::PolicyKind>(kind), {0, 2}, answer, seed) >=
              (often ? 6 : 1));
        CHECK(run_with(static_cast<engine::PolicyKind>(kind), {0, 1}, answer, seed) >=
              (often ? 11 : 3));
      }
    }
  });
}

// What the engine counts against policies of shares and streams: all, or of one.
std::uint64_t counted(const engine::Engine& engine, const std::string& policy) {
  std::uint64_t count = 0;
  for (const engine::Engine::Refusals& one : engine.refusals()) {
    if (one.policy.text().starts_with(policy)) count += one.count;
  }
  return count;
}

TEST_CASE("one share gets a policy of its own, and all others keep theirs") {
  for_seeds("test_engine", "one share gets*", 4, [](std::uint64_t seed) {
    WorldPlan plan;
    plan.seed = seed;
    plan.dram = 150'000;
    plan.epochs = 4;
    plan.config = with_policy(engine::PolicyKind::eviction, "lies");
    lying = {{0, 1}, 0, 0, 0};
    SmallWorld world(plan, list_with_liars());
    while (counted(world.engine(), "eviction.encoded[") == 0 ||
           counted(world.engine(), "eviction.prepared[") == 0)
      REQUIRE(world.step());
    std::string encoded;
    for (const engine::Engine::Refusals& one : world.engine().refusals()) {
      CHECK(one.last.find("no such item") != std::string::npos);
      if (one.policy.name == "eviction.encoded") encoded = one.policy.text();
    }
    // That of another kind, or of none, is left as it is.
    const std::string number = encoded.substr(encoded.find('['));
    world.change_policy("eviction.decoded" + number + "=lru");
    world.change_policy("eviction.encoded[77]=lru");
    world.change_policy(encoded + "=lru");
    for (int i = 0; i < 10; ++i) world.step();  // until it knows all residents
    const std::uint64_t then = counted(world.engine(), encoded);
    const std::uint64_t others = counted(world.engine(), "eviction.prepared[");
    const std::uint64_t lied = lying.lied;
    REQUIRE(world.run());
    CHECK(counted(world.engine(), encoded) == then);
    CHECK(counted(world.engine(), "eviction.prepared[") > others);
    CHECK(lying.lied > lied);
    CHECK(world.engine().counters().protocol_errors == 0);
    CHECK(world.engine().counters().stale_completions >= 2);
  });
}

TEST_CASE("one stream gets a selection policy of its own, until the policy of all is changed") {
  for_seeds("test_engine", "one stream gets*", 4, [](std::uint64_t seed) {
    WorldPlan plan;
    plan.seed = seed;
    plan.epochs = 6;
    plan.config = with_policy(engine::PolicyKind::selection, "lies");
    lying = {{0, 1}, 0, 0, 0};
    SmallWorld world(plan, list_with_liars());
    while (lying.lied < 5) REQUIRE(world.step());
    CHECK(counted(world.engine(), "selection[0]") == lying.lied);
    world.change_policy("selection[0]=ready-first");
    world.step();
    world.step();
    const std::uint64_t lied = lying.lied;
    for (int i = 0; i < 30; ++i) REQUIRE(world.step());
    CHECK(lying.lied == lied);
    world.change_policy("selection=lies");
    REQUIRE(world.run());
    CHECK(lying.lied > lied);
    CHECK(counted(world.engine(), "selection[0]") == lying.lied);
  });
}

TEST_CASE("a selection policy that waits for time alone is asked when it is over") {
  for_seeds("test_engine", "a selection policy that waits*", 4, [](std::uint64_t seed) {
    WorldPlan plan;
    plan.seed = seed;
    plan.jobs = 1;
    plan.config = with_policy(engine::PolicyKind::selection, "takes-ripe");
    SmallWorld world(plan, list_with_liars());
    run_by_the_rules(world);
  });
}

}  // namespace batchflow::test::liars_test
