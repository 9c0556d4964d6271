// Small runs with figures worked out by hand. Datasets of 64 samples in blocks of 8: K = 8.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::single_test {

namespace {

JobPlan one_rank(Order order) {
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1)};
  return job;
}

Outcomes run(const Scenario& scenario) {
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.engine.protocol_errors == 0);
  CHECK(out.engine.refused_proposals == 0);
  CHECK(out.engine.stale_completions == 0);
  return out;
}

}  // namespace

TEST_CASE("one strict job: each block is made once, each sample read once") {
  Scenario scenario = small_scenario();
  scenario.jobs = {one_rank(Order::strict)};
  const Outcomes out = run(scenario);
  CHECK(out.engine.preparations == 8);
  CHECK(out.engine.remakes == 0);
  CHECK(out.samples_read_from_store == 64);
  CHECK(out.counted_steps == 16);  // 64 / 4
  CHECK(out.fillers == 0);
  CHECK(out.engine.copied_batches == 0);  // 4 divides 8: each batch lies in one block
}

TEST_CASE("the tail is spread evenly, and only its fillers are fillers") {
  Scenario scenario = small_scenario();
  JobPlan job = one_rank(Order::sequential);
  job.ranks = {NodeId(1), NodeId(1), NodeId(1)};
  job.batch_samples = 7;
  scenario.nodes[0].dram = 40 * 512;
  scenario.jobs = {job};
  // 64 = 3 steps of 21 and a tail of 1: each rank gets one sample, two of them fillers.
  Outcomes out = run(scenario);
  CHECK(out.counted_steps == 4);
  CHECK(out.fillers == 2);
  scenario.jobs[0].drop_last = true;
  out = run(scenario);
  CHECK(out.counted_steps == 3);
  CHECK(out.fillers == 0);
}

TEST_CASE("two jobs in step share every block") {
  for (const Order order : {Order::strict, Order::relaxed, Order::sequential}) {
    Scenario scenario = small_scenario();
    scenario.nodes[0].dram = 32 * 512;
    scenario.timings.jitter = false;
    scenario.jobs = {one_rank(order), one_rank(order)};
    const Outcomes out = run(scenario);
    CHECK(out.engine.preparations == 8);
    CHECK(out.samples_read_from_store == 64);
    CHECK(out.counted_steps == 32);
  }
}

TEST_CASE("without sharing each job prepares for itself") {
  Scenario scenario = roomy_scenario();
  scenario.config.share_streams = false;
  scenario.config.policies.allocation = "equal:forms=prepared";
  scenario.jobs = {one_rank(Order::relaxed), one_rank(Order::relaxed)};
  const Outcomes out = run(scenario);
  CHECK(out.engine.preparations == 16);
  CHECK(out.samples_read_from_store <= 128);
}

TEST_CASE("four relaxed jobs of different speeds: at least one pass, at most one a job and epoch") {
  Scenario scenario = roomy_scenario();
  for (const std::int64_t speed : {1, 2, 3, 5}) {
    JobPlan job = one_rank(Order::relaxed);
    job.compute = ms(speed);
    job.epochs = 3;
    scenario.jobs.push_back(job);
  }
  const Outcomes out = run(scenario);
  CHECK(out.counted_steps == 4 * 3 * 16);
  CHECK(out.engine.preparations >= 3 * 8);
  CHECK(out.engine.preparations <= 4 * 3 * 8);
}

TEST_CASE("ranks with barriers in the least memory a join is accepted with") {
  for (const std::uint32_t credits : {1, 2, 3, 4}) {
    for (const std::uint32_t batch : {3, 8, 12, 20}) {
      for (const Order order : {Order::strict, Order::relaxed}) {
        Scenario scenario = small_scenario();
        JobPlan job = one_rank(order);
        job.ranks.assign(4, NodeId(1));
        if (order == Order::relaxed) job.ranks.resize(3);
        job.batch_samples = batch;
        job.credits = credits;
        job.epochs = 2;
        job.hold = us(700);
        // One batch a rank, one block, and a sample that is read; a batch up to a block takes a
        // block's slot.
        const Bytes slot = batch > 8 ? batch * 64 : 512;
        scenario.nodes[0].dram = job.ranks.size() * slot + 512 + 100;
        scenario.jobs = {job};
        CAPTURE(credits);
        CAPTURE(batch);
        const Outcomes out = run(scenario);
        CHECK(out.refusals == 0);
        const std::uint64_t step = job.ranks.size() * batch;
        CHECK(out.counted_steps == 2 * ((64 + step - 1) / step));
        // Bytes short of it, and the join is refused.
        scenario.nodes[0].dram -= 1;
        CHECK(run(scenario).jobs_without_room == 1);
      }
    }
  }
}

TEST_CASE("time is bounded by hand: steps after one another, and nothing else") {
  Scenario scenario = small_scenario();
  scenario.timings.jitter = false;
  JobPlan job = one_rank(Order::strict);
  job.compute = ms(10);
  scenario.jobs = {job};
  scenario.nodes[0].dram = 8 * 3200;  // two cores read two blocks each within an eighth of it
  const Outcomes out = run(scenario);
  // 16 steps of 10 ms; preparation hides behind them but for the first block: read 1 ms, prepare
  // 2 ms, deliver .1 ms, workers after 1 ms.
  CHECK(out.end >= at(ms(160)));
  CHECK(out.end <= at(ms(160) + ms(5)));
}

TEST_CASE("corrupt samples are replaced by the rule, in every block size") {
  for (const Bytes block : {64, 512, 1024}) {
    Scenario scenario = small_scenario();
    scenario.config.block_bytes = block;
    scenario.nodes[0].dram = 64 * 1024;
    scenario.datasets[0].corrupt = {SampleId(3), SampleId(17), SampleId(40)};
    scenario.jobs = {one_rank(Order::strict)};
    scenario.jobs[0].epochs = 2;
    const Outcomes out = run(scenario);
    CHECK(out.replaced == 6);
    CHECK(out.engine.corrupt_samples == 3);
  }
}

TEST_CASE("too many corrupt samples end the job") {
  Scenario scenario = small_scenario();
  for (std::uint64_t id = 0; id < 9; ++id) scenario.datasets[0].corrupt.emplace_back(id * 7);
  scenario.jobs = {one_rank(Order::strict)};
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.refusals > 0);
}

TEST_CASE("a job without workers waits, and nothing happens") {
  Scenario scenario = small_scenario();
  scenario.nodes[0].cores = 0;
  scenario.jobs = {one_rank(Order::relaxed)};
  const Outcomes out = Driver(scenario, policies::policy_list()).run_for(1000);
  CHECK(out.engine.preparations == 0);
  CHECK(out.engine.batches == 0);
}

TEST_CASE("listed orders: every sample is read once while it stays cached") {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 1 << 20;
  JobPlan job = one_rank(Order::listed);
  job.listed_batches = 100;
  scenario.jobs = {job};
  const Outcomes out = run(scenario);
  CHECK(out.engine.batches == 100);
  CHECK(out.samples_read_from_store <= 64);
}

}  // namespace batchflow::test::single_test
