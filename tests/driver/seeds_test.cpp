// Random scenarios. A failure prints the command that repeats it:
//
//   BATCHFLOW_SEED=17 test_driver -tc="random scenarios"
//
// and with BATCHFLOW_TRACE=1 all events and commands.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "policies/registry.h"
#include "tests/driver/driver.h"
#include "tests/driver/shrinking.h"
#include "tests/driver/trace.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::seeds_test {

namespace {

void trace(Hooks& hooks) {
  hooks.before_step = [](Instant now, std::span<const engine::Event> events) {
    fmt::print("{} ns\n", now.time_since_epoch().count());
    for (const engine::Event& event : events) fmt::print("  > {}\n", text(event));
  };
  hooks.commanded = [](const engine::Command& command) { fmt::print("  < {}\n", text(command)); };
}

// Empty, or what went wrong.
std::string problem_with(const Scenario& scenario,
                         const engine::PolicyList& policies = policies::policy_list(),
                         std::uint64_t check_each = 1) {
  try {
    Hooks hooks;
    std::uint64_t steps = 0;
    hooks.after_step = [&](const engine::Engine& engine) {
      if (++steps % check_each == 0) engine.check_consistency();
    };
    if (std::getenv("BATCHFLOW_TRACE")) trace(hooks);
    Driver(scenario, policies, hooks).run();
  } catch (const Violation& violation) {
    return fmt::format("{}\n{}", violation.what(), scenario.text());
  }
  return "";
}

void run_seeds(std::uint64_t first, std::uint64_t count) {
  for_problems("test_driver", "random scenarios", first, count,
               [](std::uint64_t seed) { return problem_with(random_scenario(seed)); });
}

// All that is kept is looked at after some of the steps: it is much.
std::string problem_with_wide(std::uint64_t seed) {
  return problem_with(wide_scenario(seed), policies::policy_list(), 16);
}

// Workers go while they are at work, and others come.
std::string problem_where_workers_go(std::uint64_t seed) {
  static const Canaries kPolicies{&kShrinks};
  Scenario scenario = random_scenario(seed);
  scenario.config.policies.scaling = "shrinks";
  return problem_with(scenario, kPolicies.list());
}

// Jobs change their streams among all else that happens. There is room for all: the driver does not
// know in which stream a job is, and so not what it may be refused for.
std::string problem_where_sharing_changes(std::uint64_t seed) {
  constexpr const char* kSettings[] = {
      "share_streams=true", "share_streams=false",
      "share_nodes=true",   "share_nodes=false",
      "helper_nodes=0",     "helper_nodes=3",
      "workers_per_rank=0", "workers_per_rank=1",
      "late_after_p99=0",   "workers_held_during_reads=true",
      "late_after_p99=2",   "workers_held_during_reads=false",
  };
  Random random(hash(seed, 21));
  Scenario scenario = random_scenario(seed);
  for (NodePlan& node : scenario.nodes) node.dram *= 1000;
  std::erase_if(scenario.faults,
                [](const Fault& one) { return one.kind == Fault::Kind::capacity; });
  for (int i = 0; i < 30; ++i) {
    Fault fault{};
    fault.kind = Fault::Kind::configuration;
    fault.when = us(static_cast<std::int64_t>(random.below(150'000)));
    fault.text = kSettings[random.below(random.below(2) == 0 ? 2 : std::size(kSettings))];
    scenario.faults.push_back(fault);
  }
  return problem_with(scenario);
}

}  // namespace

TEST_CASE("random scenarios") {
  run_seeds(1, 300);
}

// Seeds beyond those above.
TEST_CASE("random scenarios that once failed") {
  for (const std::uint64_t seed : {1419, 1939, 3573, 4859, 5816}) run_seeds(seed, 1);
}

TEST_CASE("wide random scenarios") {
  for_problems("test_driver", "wide random scenarios", 1, 20, problem_with_wide);
}

TEST_CASE("a wide random scenario that once failed") {
  for_problems("test_driver", "wide random scenarios", 1130, 1, problem_with_wide);
}

TEST_CASE("random scenarios in which workers go") {
  for_problems("test_driver", "random scenarios in which workers go", 1, 300,
               problem_where_workers_go);
}

TEST_CASE("random scenarios in which sharing changes") {
  for_problems("test_driver", "random scenarios in which sharing changes", 1, 300,
               problem_where_sharing_changes);
}

TEST_SUITE("long") {
  TEST_CASE("ten thousand random scenarios") {
    run_seeds(1000, 10'000);
  }
  TEST_CASE("a thousand wide random scenarios") {
    for_problems("test_driver", "wide random scenarios", 1000, 1000, problem_with_wide);
  }
  TEST_CASE("three thousand random scenarios in which workers go") {
    for_problems("test_driver", "random scenarios in which workers go", 1000, 3000,
                 problem_where_workers_go);
  }
  TEST_CASE("three thousand random scenarios in which sharing changes") {
    for_problems("test_driver", "random scenarios in which sharing changes", 1000, 3000,
                 problem_where_sharing_changes);
  }
}

}  // namespace batchflow::test::seeds_test
