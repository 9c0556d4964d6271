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

}  // namespace

TEST_CASE("random scenarios") {
  run_seeds(1, 300);
}

// Seeds beyond those above.
TEST_CASE("random scenarios that once failed") {
  run_seeds(5816, 1);
}

TEST_CASE("wide random scenarios") {
  for_problems("test_driver", "wide random scenarios", 1, 20, problem_with_wide);
}

TEST_CASE("random scenarios in which workers go") {
  for_problems("test_driver", "random scenarios in which workers go", 1, 300,
               problem_where_workers_go);
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
}

}  // namespace batchflow::test::seeds_test
