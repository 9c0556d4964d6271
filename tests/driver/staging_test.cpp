// Memory that reads land in is memory of the place: the machine counts every byte of it beside
// what is kept, and no set of jobs may bring more into a place than it holds, or stop for want of
// it.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::staging_test {

namespace {

// Jobs of as many seeds on one dataset of 400 samples of 100 bytes, in blocks of 8 that take 512
// bytes when they are prepared, in the order of each.
Scenario seeds(std::uint32_t jobs, std::uint32_t cores, Bytes dram) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].cores = cores;
  scenario.nodes[0].dram = dram;
  scenario.datasets[0].samples = 400;
  for (std::uint32_t i = 0; i < jobs; ++i) {
    JobPlan job;
    job.user = i + 1;
    job.has_shuffle_seed = true;
    job.shuffle_seed = i + 1;
    job.ranks = {NodeId(1)};
    job.batch_samples = 8;
    job.epochs = 2;
    job.compute = us(100);
    scenario.jobs.push_back(job);
  }
  return scenario;
}

}  // namespace

// Each job is promised three slots of 512 bytes. Beside them 100 bytes are one sample: what a block
// is made of comes part by part.
TEST_CASE("jobs of several seeds share a place of any size that admits them") {
  for (const std::uint32_t jobs : {1, 2, 5}) {
    for (const std::uint32_t cores : {1, 4}) {
      const Bytes least = jobs * 3 * 512 + 100;
      for (const Bytes more : {0, 100, 399, 800, 3000, 10'000, 60'000}) {
        const Scenario scenario = seeds(jobs, cores, least + more);
        CAPTURE(jobs);
        CAPTURE(cores);
        CAPTURE(more);
        const Outcomes out = Driver(scenario, policies::policy_list()).run();
        CHECK(out.jobs_done == jobs);
        CHECK(out.refusals == 0);
        CHECK(out.counted_steps == jobs * 2 * 50);
        CHECK(out.staged_most >= 100);
        CHECK(out.engine.protocol_errors == 0);
      }
    }
  }
}

// Two blocks of 800 bytes a worker may be read at a time, within an eighth of the place.
TEST_CASE(
    "reads take what workers can use and no more, and in the least memory a sample at a time") {
  const Outcomes least = Driver(seeds(1, 1, 3 * 512 + 100), policies::policy_list()).run();
  CHECK(least.staged_most == 100);
  CHECK(least.engine.reads == 2 * 400);
  const Outcomes some = Driver(seeds(1, 1, 8 * 800), policies::policy_list()).run();
  CHECK(some.staged_most <= 800);
  CHECK(some.staged_most > 300);
  const Outcomes plenty = Driver(seeds(1, 1, 8 * 1600), policies::policy_list()).run();
  CHECK(plenty.staged_most == 1600);
  CHECK(plenty.engine.reads <= 2 * 2 * 50);  // a block's: for the cache, and for itself alone
}

TEST_CASE("a join without staging memory for its samples is refused, a byte short of it") {
  Scenario scenario = seeds(1, 1, 2 * 512 + 99);
  scenario.jobs[0].credits = 1;
  CHECK(Driver(scenario, policies::policy_list()).run().jobs_without_room == 1);
  // What is set apart for reads serves nothing else.
  scenario.config.staging_bytes = 1000;
  scenario.nodes[0].dram = 2 * 512 + 1000;
  CHECK(Driver(scenario, policies::policy_list()).run().refusals == 0);
  scenario.nodes[0].dram -= 1;
  CHECK(Driver(scenario, policies::policy_list()).run().jobs_without_room == 1);
  // Whole sectors count: 100 bytes may lie in three of 64.
  scenario.config.staging_bytes = 0;
  scenario.config.staging_sector_bytes = 64;
  scenario.nodes[0].dram = 2 * 512 + 192;
  CHECK(Driver(scenario, policies::policy_list()).run().refusals == 0);
  scenario.nodes[0].dram -= 1;
  CHECK(Driver(scenario, policies::policy_list()).run().jobs_without_room == 1);
}

TEST_CASE("batches of listed orders have staging memory of their own") {
  Scenario scenario = seeds(2, 2, 0);
  scenario.jobs[1].order = Order::listed;
  scenario.jobs[1].has_shuffle_seed = false;
  scenario.jobs[1].credits = 2;
  scenario.jobs[1].hold = ms(3);
  scenario.jobs[1].listed_batches = 40;
  // Beside the other's slots and sample, two batches of 8 samples.
  scenario.nodes[0].dram = 3 * 512 + 100 + 2 * 8 * 100;
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.jobs_done == 2);
  CHECK(out.refusals == 0);
}

}  // namespace batchflow::test::staging_test
