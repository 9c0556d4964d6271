// Every registered policy, used at random (policies/conformance): no proposal of a built-in policy
// may ever be refused.
#include <doctest/doctest.h>

#include "policies/conformance/conformance.h"
#include "policies/eviction_list.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::conformance_test {

namespace {

void use_all(std::uint64_t seeds, int steps) {
  for_seeds("test_policies", "policies under random*", seeds, [&](std::uint64_t seed) {
    for (const engine::PolicyEntry* entry : tested_policies().entries()) {
      for (const engine::PolicyChoice& choice : conformance::variants(*entry)) {
        CAPTURE(choice.text());
        CHECK_NOTHROW(conformance::use_at_random(choice, seed, steps));
      }
    }
  });
}

}  // namespace

TEST_CASE("policies under random use keep to the rules") {
  use_all(20, 200);
}
TEST_SUITE("long") {
  TEST_CASE("policies under random use keep to the rules, many seeds") {
    use_all(1000, 1500);
  }
}

TEST_CASE("policies use no future that they have not declared") {
  for (const engine::PolicyEntry* entry : tested_policies().of_kind(engine::PolicyKind::eviction)) {
    CAPTURE(entry->name);
    const engine::PolicyChoice choice{entry, Parameters(entry->parameters)};
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      CHECK_NOTHROW(conformance::check_honesty(choice, seed));
  }
}

namespace {

// Each breaks one rule.
class TakesTooMuch final : public engine::AllocationPolicy {
 public:
  explicit TakesTooMuch(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    for (Slots& one : slots) one = place.capacity_bytes;
  }
};
class TakesUnready final : public engine::SelectionPolicy {
 public:
  explicit TakesUnready(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    return view.candidates.empty() ? engine::kNoChoice : 0;
  }
};
class Remembers final : public engine::DispatchPolicy {
 public:
  explicit Remembers(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    static std::size_t asked = 0;  // by all of its instances
    return asked++ % view.candidates.size();
  }
};
class Unfair final : public engine::DispatchPolicy {
 public:
  explicit Unfair(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return 0; }
};
class TooMany final : public engine::ScalingPolicy {
 public:
  explicit TooMany(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView& node) override { return node.workers_most; }
  std::uint32_t depth(const engine::JobView& job) override { return job.window + 1; }
};
class Peeks final : public policies::OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  engine::Admission missed(const engine::Access& access) override {
    return access.next_use == engine::kUnknownUse ? engine::Admission::insert
                                                  : engine::Admission::bypass;
  }
  ItemId victim(const engine::Access&) override { return list_.oldest(); }
};
class ForgetsPins final : public policies::OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  ItemId victim(const engine::Access&) override { return list_.oldest(); }
  void pinned(ItemId) override {}
  void unpinned(ItemId) override {}
};

template <class Make>
engine::PolicyChoice choice_of(Make make) {
  static std::vector<std::unique_ptr<engine::PolicyEntry>> entries;
  entries.push_back(std::make_unique<engine::PolicyEntry>(engine::PolicyEntry{"canary", "", make}));
  return {entries.back().get(), Parameters({})};
}
template <class Interface, class Policy>
engine::PolicyChoice canary() {
  return choice_of(&policies::make_policy<Interface, Policy>);
}

std::string broken(const engine::PolicyChoice& choice) {
  try {
    for (std::uint64_t seed = 0; seed < 20; ++seed) conformance::use_at_random(choice, seed, 200);
    return "";
  } catch (const conformance::Violation& violation) {
    return violation.what();
  }
}

}  // namespace

TEST_CASE("a policy that breaks a rule is found out") {
  CHECK(broken(canary<engine::AllocationPolicy, TakesTooMuch>()) ==
        "it gives more bytes than the place has");
  CHECK(broken(canary<engine::SelectionPolicy, TakesUnready>()) ==
        "it takes a block that is not ready");
  CHECK(broken(canary<engine::DispatchPolicy, Remembers>()) ==
        "it answers the same question in two ways");
  CHECK(broken(canary<engine::ScalingPolicy, TooMany>()).find("blocks ahead in a window of") !=
        std::string::npos);
  CHECK(broken(choice_of(&policies::make_eviction<ForgetsPins>)) == "a victim was refused: pinned");
  CHECK_THROWS_WITH_AS(conformance::check_honesty(choice_of(&policies::make_eviction<Peeks>), 1),
                       doctest::Contains("it uses next uses, and has not declared it"),
                       conformance::Violation);
  CHECK_THROWS_WITH_AS(conformance::check_fairness(canary<engine::DispatchPolicy, Unfair>(), 2),
                       doctest::Contains("waits for"), conformance::Violation);
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

}  // namespace batchflow::test::conformance_test
