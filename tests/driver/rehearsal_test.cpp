// Rehearsal end to end. The checker sees every draw; here stand the counts, what a job does without
// a buffer, and that the checker notices.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

#include "policies/registry.h"
#include "tests/driver/driver.h"
#include "tests/driver/noticed.h"

namespace batchflow::test::rehearsal_test {

namespace {

// 64 samples in blocks of 8, two ranks with batches of 5, 2 of them rehearsed: 11 steps an epoch.
Scenario rehearsing(Order order, std::uint32_t epochs = 2) {
  Scenario scenario = roomy_scenario();
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1), NodeId(1)};
  job.batch_samples = 5;
  job.rehearsed = 2;
  job.epochs = epochs;
  for (const std::uint64_t id : {3, 1, 4, 15, 9, 26, 53}) job.exemplars.emplace_back(id);
  scenario.jobs = {job};
  return scenario;
}

Outcomes run(const Scenario& scenario) {
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.jobs_done == scenario.jobs.size());
  return out;
}

constexpr Order kOrders[] = {Order::strict, Order::sequential, Order::relaxed};

// Whether the checker notices what `spoil` does to each batch, in every order.
bool noticed(const Spoil& spoil) {
  return std::all_of(std::begin(kOrders), std::end(kOrders),
                     [&](Order order) { return is_noticed(rehearsing(order), spoil); });
}

}  // namespace

TEST_CASE("an epoch has ceil(N / (W (b - m))) steps, and each batch m exemplars") {
  for (const Order order : kOrders) {
    const Outcomes out = run(rehearsing(order));
    CHECK(out.refusals == 0);
    CHECK(out.counted_steps == 2 * 11);
    CHECK(out.rehearsed == 2 * 11 * 2 * 2);
    // 8 blocks an epoch of what is new, and 6 of its 44 draws.
    CHECK(out.engine.preparations == 2 * (8 + 6));
    CHECK(out.engine.remakes == 0);
  }
}

TEST_CASE("without a buffer whole batches are new") {
  for (const Order order : kOrders) {
    Scenario scenario = rehearsing(order);
    scenario.jobs[0].exemplars.clear();
    const Outcomes out = run(scenario);
    CHECK(out.counted_steps == 2 * 7);
    CHECK(out.rehearsed == 0);
    CHECK(out.engine.preparations == 2 * 8);
  }
}

TEST_CASE("a buffer reported in an epoch counts from the next on") {
  Scenario scenario = rehearsing(Order::strict);
  scenario.jobs[0].exemplars.clear();
  scenario.jobs[0].exemplars_in_100 = 100;
  scenario.jobs[0].epochs = 6;
  const Outcomes out = run(scenario);
  CHECK(out.counted_steps > 6 * 7);
  CHECK(out.rehearsed > 0);
}

TEST_CASE("rehearsal goes on at any size, after any loss") {
  for (const Order order : kOrders) {
    for (const Fault::Kind kind : {Fault::Kind::rank_lost, Fault::Kind::worker_lost,
                                   Fault::Kind::coordinator_lost, Fault::Kind::job_leaves}) {
      for (std::uint64_t step = 1; step <= 20; ++step) {
        Scenario scenario = rehearsing(order, 3);
        Fault fault{};
        fault.kind = kind;
        fault.after_steps = step;
        fault.later = ms(3);
        fault.batch_samples = static_cast<std::uint32_t>(3 + step % 5);
        fault.ranks.assign(1 + step % 3, NodeId(1));
        scenario.faults = {fault};
        scenario.from_promises = step % 2 == 0;
        CAPTURE(static_cast<int>(order));
        CAPTURE(static_cast<int>(kind));
        CAPTURE(step);
        CHECK(run(scenario).rehearsed > 0);
      }
    }
  }
}

TEST_CASE("draws and lists have no rehearsal, and something is new in each batch") {
  for (const auto& [order, rehearsed, why] :
       {std::tuple{Order::weighted, 2u, engine::Refusal::wrong_order},
        std::tuple{Order::listed, 2u, engine::Refusal::wrong_order},
        std::tuple{Order::strict, 5u, engine::Refusal::bad_request},
        std::tuple{Order::relaxed, 6u, engine::Refusal::bad_request}}) {
    Scenario scenario = rehearsing(order);
    scenario.jobs[0].rehearsed = rehearsed;
    std::optional<engine::Refusal> refused;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) refused = one->why;
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    CHECK(refused == why);
  }
}

TEST_CASE("the checker notices what is rehearsed otherwise") {
  CHECK_FALSE(noticed([](auto&, Rank, std::uint64_t) {}));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t) { samples.back().rehearsed = false; }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t) { samples.front().rehearsed = true; }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t) { samples.pop_back(); }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t) { std::swap(samples[2], samples[4]); }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t step) {  // another exemplar, once
    if (step == 3) samples.back().visited = samples.back().used = SampleId(53);
    if (step == 4) samples.back().visited = samples.back().used = SampleId(53);
  }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t step) {  // one that is in no buffer
    if (step == 8) samples.back().visited = samples.back().used = SampleId(60);
  }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t step) {
    if (step > 2) samples.back().occurrence = 0;
  }));
  CHECK(noticed([](auto& samples, Rank rank, std::uint64_t step) {  // of two buffers
    if (step == 5 && rank == 1) samples.back().generation ^= 1;
  }));
  CHECK(noticed([](auto& samples, Rank, std::uint64_t step) {  // nothing, for one step
    if (step == 5) samples.resize(3);
  }));
}

}  // namespace batchflow::test::rehearsal_test
