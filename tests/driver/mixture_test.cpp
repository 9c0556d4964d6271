// Mixtures end to end. The checker knows the rule and compares each sample; here stands what is
// shared, changed and refused.
#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <vector>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::mixture_driver_test {

namespace {

// Draws of three sources of a dataset of 64 samples, in blocks of 8, batches of 4.
JobPlan mixed(std::vector<double> weights, std::uint32_t epochs = 3) {
  JobPlan job;
  job.order = Order::mixed;
  job.ranks = {NodeId(1)};
  job.epochs = epochs;
  job.sources = {{SampleId(30), 34}, {SampleId(0), 20}, {SampleId(20), 5}};
  job.weights = std::move(weights);
  return job;
}

Outcomes run(const Scenario& scenario) {
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.engine.protocol_errors == 0);
  CHECK(out.refusals == 0);
  CHECK(out.jobs_done == scenario.jobs.size());
  return out;
}

// One job to which something happens after some steps: `what` of four.
Outcomes disturbed(const JobPlan& job, std::uint64_t after, std::uint64_t what) {
  constexpr std::array kKinds{Fault::Kind::coordinator_lost, Fault::Kind::rank_lost,
                              Fault::Kind::job_resized, Fault::Kind::job_leaves};
  Scenario scenario = roomy_scenario({job});
  scenario.seed = after;
  Fault fault{};
  fault.after_steps = after % 20 + 1;
  fault.kind = kKinds.at(what);
  fault.batch_samples = 3;
  fault.ranks = {NodeId(1), NodeId(1), NodeId(1)};
  fault.later = ms(2);
  scenario.faults = {fault};
  scenario.from_promises = after % 8 == 0;
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.jobs_done == 1);
  CHECK(out.engine.protocol_errors == 0);
  return out;
}

// So many samples are corrupt, from the first on.
void add_corrupt(Scenario& scenario, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) scenario.datasets[0].corrupt.emplace_back(first + i);
}

}  // namespace

TEST_CASE("a mixture is drawn as its rule says, in epochs of any length") {
  for (const std::uint64_t draws : {1, 7, 8, 63, 64, 200}) {
    JobPlan job = mixed({0.7, 0.2, 0.1});
    job.draws = draws;
    CAPTURE(draws);
    const Outcomes out = run(roomy_scenario({job}));
    CHECK(out.counted_steps == 3 * ((draws + 3) / 4));
  }
}

TEST_CASE("what an epoch of a mixture leaves out comes first in its next") {
  JobPlan job = mixed({0.7, 0.2, 0.1}, 5);
  job.draws = 30;
  job.drop_last = true;
  CHECK(run(roomy_scenario({job})).counted_steps == 5 * 7);
}

// Its next epoch is not opened while the buffer waits for the last steps of this one.
TEST_CASE("a mixture that rehearses may be resized where an epoch ends") {
  for (std::uint64_t after = 1; after <= 18; ++after) {
    JobPlan job = mixed({5, 2, 1}, 3);
    job.batch_samples = 3;
    job.draws = 19;
    job.drop_last = true;
    job.credits = 1;
    job.rehearsed = 1;
    job.buffer_policy = "reservoir";
    job.buffer_exemplars = 20;
    Scenario scenario = roomy_scenario({job});
    Fault fault{};
    fault.after_steps = after;
    fault.kind = after % 2 == 0 ? Fault::Kind::rank_lost : Fault::Kind::job_resized;
    fault.batch_samples = 3;
    fault.ranks = {NodeId(1)};
    fault.later = us(1);
    scenario.faults = {fault};
    CAPTURE(after);
    const Outcomes out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.jobs_done == 1);
    CHECK(out.engine.protocol_errors == 0);
  }
}

TEST_CASE("jobs of one mixture share its blocks, those of others what is decoded") {
  const JobPlan job = mixed({3, 1, 2});
  const auto prepared = [](const std::vector<JobPlan>& jobs) {
    return run(roomy_scenario(jobs)).engine.preparations;
  };
  const std::uint64_t one = prepared({job});
  CHECK(prepared({job, job}) == one);
  CHECK(prepared({job, mixed({1, 1, 2})}) == 2 * one);
  JobPlan other_seed = job;
  other_seed.has_shuffle_seed = true;
  CHECK(prepared({job, other_seed}) == 2 * one);
  Scenario two = roomy_scenario({job, mixed({1, 1, 2})});
  Scenario alone = roomy_scenario({job});
  // Each sample is read once, whatever the weights are, as long as there is memory for all.
  CHECK(run(two).samples_read_from_store <= 59);
  CHECK(run(alone).samples_read_from_store <= 59);
}

TEST_CASE("jobs of other sources of one dataset have nothing of each other") {
  JobPlan cats = mixed({1});
  cats.sources = {{SampleId(0), 20}};
  cats.draws = 100;
  JobPlan dogs = cats;
  dogs.sources = {{SampleId(30), 34}};
  Scenario scenario = roomy_scenario({cats, dogs});
  scenario.datasets[0].corrupt = {SampleId(3), SampleId(40)};
  CHECK(run(scenario).replaced > 0);
}

TEST_CASE("weights change while a job runs, and it may lose ranks, sizes and its service") {
  for (std::uint64_t after = 1; after <= 40; ++after) {
    JobPlan job = mixed({5, 1, 1}, 4);
    job.ranks = {NodeId(1), NodeId(1)};
    job.draws = 50;
    job.changes_in_100 = 25;
    CAPTURE(after);
    disturbed(job, after, after % 4);
  }
}

TEST_CASE("a policy changes weights by losses, and the job may lose ranks, sizes and its service") {
  constexpr const char* kPolicies[] = {"excess-loss:every=20", "softmax:every=30:change=1",
                                       "ucb:every=10:least=0.1", "excess-loss:every=1:rate=9"};
  for (std::uint64_t after = 1; after <= 32; ++after) {
    JobPlan job = mixed({5, 1, 0.5}, 4);
    job.ranks = {NodeId(1), NodeId(1)};
    job.draws = 80;
    job.weights_policy = kPolicies[after % 4];
    job.losses = {0.5F, 2, 1};
    CAPTURE(after);
    const Outcomes out = disturbed(job, after, after % 8 / 2);
    CHECK(out.weights_changed > 0);
  }
}

TEST_CASE("weights by losses need a policy of that kind, and weights") {
  const auto refused = [](const char* policy, Order order) {
    JobPlan job = mixed({1, 1, 1});
    job.order = order;
    job.weights_policy = policy;
    job.losses = {1, 2, 3};
    std::optional<engine::Refusal> why;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) why = one->why;
    };
    Driver(roomy_scenario({job}), policies::policy_list(), hooks).run();
    return why;
  };
  for (const char* policy : {"lru", "excess-loss:rate=x", "reservoir", ":", "ucb:steps=1"}) {
    CAPTURE(policy);
    CHECK(refused(policy, Order::mixed) == engine::Refusal::bad_request);
  }
  CHECK(refused("ucb", Order::strict) == engine::Refusal::bad_request);
  CHECK(refused("ucb", Order::mixed) == std::nullopt);
}

TEST_CASE("a corrupt sample of a source is replaced by another of the same source") {
  JobPlan job = mixed({1, 1, 1});
  Scenario scenario = roomy_scenario({job});
  scenario.datasets[0].corrupt = {SampleId(3), SampleId(21), SampleId(40)};
  CHECK(run(scenario).replaced > 0);
}

TEST_CASE("corrupt samples count for their source: as many as are allowed in each end no job") {
  JobPlan job = mixed({1, 1, 1});
  job.draws = 200;
  Scenario scenario = roomy_scenario({job});
  add_corrupt(scenario, 0, 8);
  add_corrupt(scenario, 30, 8);
  add_corrupt(scenario, 20, 4);
  CHECK(run(scenario).engine.corrupt_samples == 20);
}

// The first job that meets the ninth is refused. When it comes again, all nine are known.
TEST_CASE("a job is ended by corrupt samples of its own sources alone") {
  JobPlan broken = mixed({1});
  broken.sources = {{SampleId(0), 20}};
  broken.draws = 200;
  JobPlan fine = mixed({1, 1});
  fine.sources = {{SampleId(30), 34}, {SampleId(20), 5}};
  fine.draws = 200;
  for (const bool alone : {false, true}) {
    CAPTURE(alone);
    Scenario scenario = roomy_scenario({fine});
    if (!alone) scenario.jobs.push_back(broken);
    add_corrupt(scenario, 3, 9);
    add_corrupt(scenario, 40, 8);
    std::vector<engine::Refuse> refused;
    std::vector<std::uint64_t> had(2);
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) refused.push_back(*one);
    };
    hooks.counted = [&](std::size_t of, std::span<const SampleId> samples) {
      had.at(of) += samples.size();
    };
    const Outcomes out = Driver(scenario, policies::policy_list(), std::move(hooks)).run();
    CHECK(out.engine.protocol_errors == 0);
    CHECK(out.engine.corrupt_samples == (alone ? 8 : 17));
    CHECK(had[0] == 3 * 200);
    CHECK(had[1] == (alone ? 0 : 3 * 200));
    REQUIRE(refused.size() == (alone ? 0 : 1));
    if (alone) continue;
    CHECK(refused[0].why == engine::Refusal::too_many_corrupt);
    CHECK(refused[0].needed == 9);
    CHECK(refused[0].available == 8);
  }
}

}  // namespace batchflow::test::mixture_driver_test
