// What an engine counts of requests that are followed (core/engine/shadow_cache.h).
#include <doctest/doctest.h>

#include <cmath>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::regret_test {

namespace {

// A cache that holds half of a dataset, which a job reads six times.
Scenario half_cached(const char* eviction, std::uint64_t samples = 4000) {
  Scenario scenario = small_scenario();
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction.fill(eviction);
  scenario.datasets[0].samples = samples;
  scenario.datasets[0].bytes = 64;
  scenario.config.item_slot_bytes = 64;
  scenario.nodes = {{NodeId(1), 2, samples / 2 * 64 + 40'000, 0, {}}};
  JobPlan job;
  job.ranks = {NodeId(1)};
  job.order = Order::strict;
  job.epochs = 6;
  scenario.jobs = {job};
  return scenario;
}

}  // namespace

TEST_CASE("what eviction loses: lru on permutations much, batchflow nearly nothing") {
  const auto regret = [](const char* eviction) {
    const engine::EngineCounters counted =
        Driver(half_cached(eviction), policies::policy_list(), {}).run().engine;
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

// What other policies would have hit, on all items of a small dataset and on some of a large one.
TEST_CASE("shadows of eviction policies") {
  for (const std::uint64_t samples : {4000u, 40'000u}) {
    const Scenario scenario = half_cached("lru", samples);
    const Outcomes alone = Driver(scenario, policies::policy_list(), {}).run();
    const Outcomes with_batchflow =
        Driver(half_cached("batchflow", samples), policies::policy_list(), {}).run();
    std::vector<engine::Engine::Shadow> shadows;
    Hooks hooks;
    hooks.begun = [](engine::Engine& engine) {
      const std::string policies[] = {"eviction.encoded=lru", "eviction=batchflow",
                                      "eviction.encoded=minio"};
      engine.shadow(policies);
    };
    hooks.after_step = [&](const engine::Engine& engine) { shadows = engine.shadows(); };
    const Outcomes shadowed = Driver(scenario, policies::policy_list(), hooks).run();
    // They decide nothing.
    CHECK(shadowed.digest == alone.digest);
    REQUIRE(shadows.size() == 3);
    CHECK(shadows[0].policy == "batchflow");
    CHECK(shadows[1].policy == "lru");
    CHECK(shadows[2].policy == "minio");
    const auto part = [](std::uint64_t of, const engine::Engine::Shadow& all) {
      return static_cast<double>(of) / static_cast<double>(all.requests);
    };
    for (const engine::Engine::Shadow& one : shadows) {
      CAPTURE(one.policy);
      CHECK(one.eviction == "encoded");
      CHECK(one.live == "lru");
      CHECK(one.live_missed == (one.requests - one.live_hits) * 64);
      CHECK(one.missed == (one.requests - one.hits) * 64);
      CHECK(one.requests > 4 * samples);
    }
    // The policy that decides, once more: only what is in use makes them differ.
    CHECK(std::abs(part(shadows[1].hits, shadows[1]) - part(shadows[1].live_hits, shadows[1])) <
          0.02);
    // What a run with the other policy hits.
    const double real = 1 - static_cast<double>(with_batchflow.engine.samples_read) /
                                static_cast<double>(6 * samples);
    CHECK(std::abs(part(shadows[0].hits, shadows[0]) - real) < 0.03);
    CHECK(part(shadows[0].hits, shadows[0]) > part(shadows[1].hits, shadows[1]) + 0.05);
  }
  engine::Catalogues none;
  engine::Engine engine({}, policies::policy_list(), none);
  const std::string wrong[] = {"dispatch=fifo"};
  CHECK_THROWS_AS(engine.shadow(wrong), ConfigError);
}

}  // namespace batchflow::test::regret_test
