// Small runs whose figures are worked out by hand.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

TEST_CASE("one strict job: each block is made once, each sample read once") {
  Scenario scenario = small_scenario();
  JobPlan job;
  job.order = Order::strict;
  job.ranks = {NodeId(1)};
  scenario.jobs = {job};
  const Outcomes out = Driver(scenario, policy_list()).run();
  CHECK(out.engine.preparations == 8);  // K = 64 / 8
  CHECK(out.samples_read_from_store == 64);
  CHECK(out.counted_steps == 16);
  CHECK(out.fillers == 0);
  CHECK(out.engine.copied_batches == 0);
  CHECK(out.engine.protocol_errors == 0);
}

}  // namespace batchflow::test
