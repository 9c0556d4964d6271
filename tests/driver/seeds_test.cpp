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
#include "tests/driver/trace.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test {

namespace {

void trace(Hooks& hooks) {
  hooks.before_step = [](Instant now, std::span<const Event> events) {
    fmt::print("{} ns\n", now.time_since_epoch().count());
    for (const Event& event : events) fmt::print("  > {}\n", text(event));
  };
  hooks.ordered = [](const Command& command) { fmt::print("  < {}\n", text(command)); };
}

// Empty, or what went wrong with the seed.
std::string problem_with(std::uint64_t seed) {
  const Scenario scenario = random_scenario(seed);
  try {
    Hooks hooks;
    hooks.after_step = [](const Engine& engine) { engine.check_consistency(); };
    if (std::getenv("BATCHFLOW_TRACE")) trace(hooks);
    Driver(scenario, policy_list(), hooks).run();
  } catch (const Violation& violation) {
    return fmt::format("{}\n{}", violation.what(), scenario.text());
  }
  return "";
}

void run_seeds(std::uint64_t first, std::uint64_t count) {
  for_problems("test_driver", "random scenarios", first, count, problem_with);
}

}  // namespace

TEST_CASE("random scenarios") {
  run_seeds(1, 300);
}

TEST_SUITE("long") {
  TEST_CASE("ten thousand random scenarios") {
    run_seeds(1000, 10'000);
  }
}

}  // namespace batchflow::test
