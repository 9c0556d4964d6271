// Memory that reads land in is memory of the place: the machine counts every byte of it beside
// what is kept, and no set of jobs may bring more into a place than it holds, or stop for want of
// it.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

namespace {

// Jobs of as many seeds on one data set of 400 samples of 100 bytes, in blocks of 8 that take 512
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
        const Outcomes out = Driver(scenario, policy_list()).run();
        CHECK(out.jobs_done == jobs);
        CHECK(out.refusals == 0);
        CHECK(out.counted_steps == jobs * 2 * 50);
        CHECK(out.staged_most >= 100);
        CHECK(out.engine.protocol_errors == 0);
      }
    }
  }
}

}  // namespace batchflow::test
