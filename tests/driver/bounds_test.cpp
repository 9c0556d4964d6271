// How long things take at most, worked out by hand: no policy, lock or wait may add to it. Nothing
// fails and no time is drawn, so every figure is exact.
//
// Until the first step: workers are there 1 ms after their node; a block is read in r and prepared
// in p; a batch is delivered in d. Reads of what is made next overlap with preparations.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::bounds_test {

namespace {

constexpr Duration kWorkers = ms(1);

// k jobs of a stream each, 64 samples in 8 blocks, batches of a block.
Scenario jobs_alone(std::uint32_t jobs, std::uint32_t cores, std::uint32_t epochs) {
  Scenario scenario = small_scenario();
  scenario.timings.jitter = false;
  scenario.nodes[0].cores = cores;
  // And for four cores to read two blocks each: 8 * 800 bytes are an eighth of this.
  scenario.nodes[0].dram = jobs * 64 * 512 + 8 * 6400;
  for (std::uint32_t i = 0; i < jobs; ++i) {
    JobPlan job;
    job.user = i + 1;
    job.order = Order::relaxed;
    job.ranks = {NodeId(1)};
    job.batch_samples = 8;
    job.epochs = epochs;
    scenario.jobs.push_back(job);
  }
  return scenario;
}

Duration time_of(const Scenario& scenario) {
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.jobs_done == scenario.jobs.size());
  CHECK(out.engine.remakes == 0);
  return out.end - Instant{};
}

}  // namespace

TEST_CASE("a job that computes longer than its blocks take waits for the first one alone") {
  for (const std::uint32_t epochs : {1, 3}) {
    Scenario scenario = jobs_alone(1, 1, epochs);
    scenario.jobs[0].compute = ms(3);
    const Timings& t = scenario.timings;
    // first block and its delivery, then 8 steps an epoch
    const Duration exact = kWorkers + t.read + t.prepare + t.deliver + epochs * 8 * ms(3);
    CHECK(time_of(scenario) == exact);
  }
}

TEST_CASE("a job that computes nothing is as fast as the core that prepares for it") {
  Scenario scenario = jobs_alone(1, 1, 2);
  scenario.jobs[0].compute = us(1);
  const Timings& t = scenario.timings;
  CHECK(time_of(scenario) == kWorkers + t.read + 16 * t.prepare + t.deliver + us(1));
}

TEST_CASE("k jobs on c cores: each core is always busy, and no job ends after all are made") {
  for (const char* dispatch :
       {"fifo", "round-robin", "earliest-deadline", "bounded-lag", "coordinated"}) {
    for (const std::uint32_t cores : {1, 2, 3, 4}) {
      for (const std::uint32_t jobs : {1, 2, 3, 5}) {
        Scenario scenario = jobs_alone(jobs, cores, 2);
        scenario.config.policies.dispatch = dispatch;
        scenario.config.policies.scaling = "static:depth=8";  // reads are ahead of four cores
        for (JobPlan& job : scenario.jobs) job.compute = us(1);
        const Timings& t = scenario.timings;
        CAPTURE(dispatch);
        CAPTURE(cores);
        CAPTURE(jobs);
        const Duration took = time_of(scenario);
        const std::uint64_t blocks = jobs * 16;
        const auto rounds = static_cast<std::int64_t>((blocks + cores - 1) / cores);
        CHECK(took >= kWorkers + t.read + rounds * t.prepare);
        // No more than a round is lost, where the last jobs have fewer blocks left than there are
        // cores; then the last block is delivered and trained on.
        CHECK(took <= kWorkers + t.read + (rounds + 1) * t.prepare + t.deliver + us(1));
      }
    }
  }
}

TEST_CASE("jobs of one stream end together with the first, for what one of them needs") {
  for (const std::uint32_t jobs : {2, 4, 8}) {
    Scenario scenario = jobs_alone(jobs, 1, 2);
    for (JobPlan& job : scenario.jobs) {
      job.user = 1;
      job.compute = us(1);
    }
    const Timings& t = scenario.timings;
    CHECK(time_of(scenario) == kWorkers + t.read + 16 * t.prepare + t.deliver + us(1));
  }
}

TEST_CASE("a barrier waits for the slowest of its ranks and for nothing else") {
  Scenario scenario = jobs_alone(1, 2, 2);
  scenario.jobs[0].ranks.assign(4, NodeId(1));
  scenario.jobs[0].batch_samples = 2;  // four ranks share a block: 8 steps an epoch
  scenario.jobs[0].compute = ms(5);
  const Timings& t = scenario.timings;
  CHECK(time_of(scenario) == kWorkers + t.read + t.prepare + t.deliver + 16 * ms(5));
}

}  // namespace batchflow::test::bounds_test
