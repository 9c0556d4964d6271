// Strict jobs that come when memory is not what it was: lanes of new generations are sized by it,
// what is promised and shared is not.
#include <doctest/doctest.h>

#include <set>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::strict_sharing_test {

// 4096 samples are 512 blocks of 8: lanes of at most 16 blocks, of half of the window, of 4 at
// least. The second job comes after the node has lost half of its memory, or got more.
TEST_CASE("a strict job that comes under other memory shares every block, in the same sequence") {
  for (const Bytes blocks_then : {20, 60}) {
    Scenario scenario = small_scenario();
    scenario.nodes[0].dram = 40 * 512;
    scenario.datasets[0].samples = 4096;
    scenario.timings.jitter = false;
    JobPlan job;
    job.order = Order::strict;
    job.ranks = {NodeId(1)};
    job.epochs = 2;
    job.compute = ms(2);  // of half a block, in the time in which both cores prepare a block each
    JobPlan later = job;
    later.joins = ms(5);
    scenario.jobs = {job, later};
    Fault changed{};
    changed.kind = Fault::Kind::capacity;
    changed.when = ms(4);
    changed.number = 1;
    changed.bytes = blocks_then * 512;
    scenario.faults = {changed};

    std::set<std::uint32_t> lanes;  // sizes of them
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
        lanes.insert(prepare->lineage.lane_blocks);
      }
    };
    // The checker sees that each job has the sequence of its epoch and no other.
    const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
    CAPTURE(blocks_then);
    CHECK(out.jobs_done == 2);
    CHECK(lanes.size() == 2);  // of the epoch that had begun, and of the next
    CHECK(out.engine.preparations == 2 * 512);
    CHECK(out.engine.remakes == 0);
  }
}

}  // namespace batchflow::test::strict_sharing_test
