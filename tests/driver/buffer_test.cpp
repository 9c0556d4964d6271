// Buffers that the engine fills, end to end. The checker works out what a reservoir has; here stand
// the other policies, what survives, which jobs share a buffer, and that the checker notices.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "core/log/promise_log.h"
#include "policies/registry.h"
#include "tests/driver/driver.h"
#include "tests/driver/noticed.h"

namespace batchflow::test::buffer_test {

namespace {

constexpr Order kOrders[] = {Order::strict, Order::sequential, Order::relaxed, Order::mixed};

// 64 samples in blocks of 8, two ranks with batches of 5, of which 2 are rehearsed.
Scenario filling(Order order, std::string policy = "reservoir", std::uint32_t epochs = 4) {
  Scenario scenario = roomy_scenario();
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1), NodeId(1)};
  job.batch_samples = 5;
  job.rehearsed = 2;
  job.epochs = epochs;
  job.buffer_policy = std::move(policy);
  job.buffer_exemplars = 12;
  if (order == Order::mixed) {
    job.sources = {{SampleId(0), 20}, {SampleId(20), 44}};
    job.weights = {1, 3};
    job.draws = 40;
  }
  scenario.jobs = {job};
  return scenario;
}

Outcomes run(const Scenario& scenario, const Hooks& hooks = {}) {
  const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(out.jobs_done == scenario.jobs.size());
  return out;
}

// What the job is said to rehearse from, in turn.
std::vector<std::vector<SampleId>> buffers_of(const Scenario& scenario) {
  std::vector<std::vector<SampleId>> all;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* one = std::get_if<engine::ExemplarsSet>(&command))
      all.emplace_back(one->samples.begin(), one->samples.end());
  };
  run(scenario, hooks);
  return all;
}

// Whether the checker notices what `spoil` does to each batch, in every order.
bool noticed(const Spoil& spoil) {
  return std::all_of(std::begin(kOrders), std::end(kOrders),
                     [&](Order order) { return is_noticed(filling(order), spoil); });
}

}  // namespace

TEST_CASE("the first epoch of a buffer is plain, and all others have m exemplars in each batch") {
  for (const Order order : {Order::strict, Order::sequential, Order::relaxed}) {
    const Outcomes out = run(filling(order));
    CHECK(out.refusals == 0);
    CHECK(out.counted_steps == 7 + 3 * 11);
    CHECK(out.rehearsed == 3 * 11 * 2 * 2);
  }
  CHECK(run(filling(Order::mixed)).rehearsed == 3 * 7 * 2 * 2);  // 40 draws in steps of 6 new ones
}

TEST_CASE("a buffer is filled alike by any policy, at any size, after any loss of ranks") {
  for (const char* policy :
       {"reservoir", "random-replacement", "per-class", "by-score", "prioritised"}) {
    for (const Order order : kOrders) {
      for (const Fault::Kind kind :
           {Fault::Kind::rank_lost, Fault::Kind::worker_lost, Fault::Kind::job_resized}) {
        for (std::uint64_t step = 3; step <= 24; step += 7) {
          Scenario scenario = filling(order, policy);
          Fault fault{};
          fault.kind = kind;
          fault.after_steps = step;
          fault.later = ms(3);
          fault.batch_samples = static_cast<std::uint32_t>(3 + step % 5);
          fault.ranks.assign(1 + step % 3, NodeId(1));
          scenario.faults = {fault};
          CAPTURE(policy);
          CAPTURE(static_cast<int>(order));
          CAPTURE(static_cast<int>(kind));
          CAPTURE(step);
          CHECK(run(scenario).rehearsed > 0);
        }
      }
    }
  }
}

TEST_CASE("a service that is lost leaves its buffers in its promises") {
  for (const Order order : kOrders) {
    for (std::uint64_t step = 8; step <= 30; step += 5) {
      Scenario scenario = filling(order);
      Fault fault{};
      fault.kind = Fault::Kind::coordinator_lost;
      fault.after_steps = step;
      fault.later = ms(3);
      scenario.faults = {fault};
      scenario.from_promises = step % 2 == 0;
      CAPTURE(static_cast<int>(order));
      CAPTURE(step);
      // Without what was promised, an epoch would be plain again, and have fewer steps.
      const Outcomes out = run(scenario);
      CHECK(out.rehearsed >= 3 * 7 * 2 * 2);
    }
  }
}

TEST_CASE("what a job has is the same whatever else happens on the way") {
  // This policy keeps others in each epoch; a reservoir of all samples stays as it is.
  const auto calm = buffers_of(filling(Order::strict, "random-replacement"));
  REQUIRE(calm.size() == 3);
  CHECK(calm[0] != calm[2]);
  CHECK(buffers_of(filling(Order::strict)).size() == 1);
  Scenario scenario = filling(Order::strict, "random-replacement");
  Fault fault{};
  fault.kind = Fault::Kind::worker_lost;
  fault.after_steps = 9;
  fault.later = ms(1);
  scenario.faults = {fault};
  scenario.timings.prepare = ms(7);
  CHECK(buffers_of(scenario) == calm);
}

// Exemplars have their homes on all nodes. Where they are, and how many nodes there are, decides
// nothing.
TEST_CASE("a buffer over several nodes is drawn from as one on a single node") {
  const auto rehearsed_on = [](std::size_t nodes) {
    Scenario scenario = filling(Order::strict);
    scenario.nodes.resize(1);
    for (std::size_t i = 1; i < nodes; ++i) {
      scenario.nodes.push_back(scenario.nodes[0]);
      scenario.nodes.back().id = NodeId(static_cast<std::uint32_t>(1 + i));
    }
    scenario.jobs[0].ranks = {NodeId(1), NodeId(static_cast<std::uint32_t>(nodes))};
    std::map<std::pair<std::uint64_t, Rank>, std::vector<SampleId>> all;
    Hooks hooks;
    hooks.handed = [&](std::vector<Handed>& samples, Rank rank, std::uint64_t step) {
      for (const Handed& one : samples) {
        if (one.rehearsed) all[{step, rank}].push_back(one.visited);
      }
    };
    run(scenario, hooks);
    return all;
  };
  const auto alone = rehearsed_on(1);
  CHECK(alone.size() == 3 * 11 * 2);
  CHECK(rehearsed_on(2) == alone);
  CHECK(rehearsed_on(4) == alone);
}

TEST_CASE("jobs that name one buffer fill it together") {
  Scenario scenario = filling(Order::strict);
  JobPlan later = scenario.jobs[0];
  later.joins = ms(400);
  later.epochs = 1;
  for (JobPlan* const job : {&scenario.jobs[0], &later}) job->buffer = 5;
  scenario.jobs.push_back(later);
  const auto all = buffers_of(scenario);
  REQUIRE(all.size() >= 2);
  CHECK(all.back().size() == 12);  // the second job rehearses in its only epoch
  scenario.jobs[1].buffer = 6;
  CHECK(buffers_of(scenario).size() < all.size());
}

TEST_CASE("a buffer that was made otherwise is refused") {
  for (const bool other_policy : {false, true}) {
    Scenario scenario = filling(Order::strict);
    JobPlan other = scenario.jobs[0];
    scenario.jobs[0].buffer = other.buffer = 5;
    other.joins = ms(5);
    (other_policy ? other.buffer_policy : scenario.jobs[0].buffer_policy) = "by-score";
    if (!other_policy) {
      other.buffer_policy = "by-score";
      other.buffer_exemplars = 13;
    }
    scenario.jobs.push_back(other);
    std::optional<engine::Refuse> refused;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) refused = *one;
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    REQUIRE(refused);
    CHECK(refused->why == engine::Refusal::other_buffer);
    CHECK((refused->needed == refused->available) == other_policy);
  }
}

TEST_CASE("a buffer needs a policy, exemplars, and something that is rehearsed") {
  const auto refused = [](const std::function<void(JobPlan&)>& change) {
    Scenario scenario = filling(Order::strict);
    change(scenario.jobs[0]);
    std::optional<engine::Refusal> why;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) why = one->why;
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    return why;
  };
  CHECK(refused([](JobPlan& job) { job.buffer_policy = "lru"; }) == engine::Refusal::bad_request);
  CHECK(refused([](JobPlan& job) { job.buffer_exemplars = 1 << 17; }) ==
        engine::Refusal::bad_request);
  CHECK(refused([](JobPlan& job) { job.rehearsed = 0; }) == engine::Refusal::bad_request);
  CHECK(refused([](JobPlan&) {}) == std::nullopt);
}

TEST_CASE("the checker notices what is not of the buffer") {
  CHECK_FALSE(noticed([](auto&, Rank, std::uint64_t) {}));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t step) {
    if (step < 15 || !samples.back().rehearsed) return;
    samples.back().visited = samples.back().used = SampleId(63);
  }));
}

}  // namespace batchflow::test::buffer_test
