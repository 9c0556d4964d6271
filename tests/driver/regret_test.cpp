// What an engine counts of requests that are followed (core/engine/shadow_cache.h).
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::regret_test {

TEST_CASE("what eviction loses: lru on permutations much, batchflow nearly nothing") {
  const auto regret = [](const char* eviction) {
    Scenario scenario = small_scenario();
    scenario.config.policies.allocation = "encoded-first:forms=encoded";
    scenario.config.policies.eviction.fill(eviction);
    scenario.datasets[0].samples = 4000;
    scenario.datasets[0].bytes = 64;
    scenario.config.item_slot_bytes = 64;
    scenario.nodes = {{NodeId(1), 2, 2000 * 64 + 40'000, 0, {}}};
    JobPlan job;
    job.ranks = {NodeId(1)};
    job.order = Order::strict;
    job.epochs = 6;
    scenario.jobs = {job};
    const engine::EngineCounters counted =
        Driver(scenario, policies::policy_list(), {}).run().engine;
    REQUIRE(counted.followed_requests > 6 * 300);
    CHECK(counted.followed_hits <= counted.followed_requests);
    return (static_cast<double>(counted.followed_bound_hits) -
            static_cast<double>(counted.followed_hits)) /
           static_cast<double>(counted.followed_requests);
  };
  CHECK(regret("lru") > 0.1);
  CHECK(regret("batchflow") < 0.05);
  CHECK(regret("batchflow") > -0.05);
}

}  // namespace batchflow::test::regret_test
