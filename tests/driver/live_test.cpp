// Live orders end to end. The checker knows the rule and compares each record; here stands how
// sources behave, and what goes wrong meanwhile.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/random.h"
#include "policies/registry.h"
#include "tests/driver/driver.h"
#include "tests/driver/machine.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::live_driver_test {

namespace {

JobPlan live_job(std::size_t ranks = 1) {
  JobPlan job;
  job.order = Order::live;
  job.ranks.assign(ranks, NodeId(1));
  job.fills_after = ms(20);
  job.fills_from = 16;
  return job;
}

Scenario scenario_of(std::vector<DatasetPlan::Arrival> arrivals, std::vector<JobPlan> jobs) {
  Scenario scenario = roomy_scenario();
  scenario.datasets[0].samples = 100'000;
  scenario.datasets[0].arrivals = std::move(arrivals);
  scenario.jobs = std::move(jobs);
  return scenario;
}

Outcomes run(const Scenario& scenario, Hooks hooks = {}) {
  const Outcomes out = Driver(scenario, policies::policy_list(), std::move(hooks)).run();
  CHECK(out.engine.protocol_errors == 0);
  CHECK(out.refusals == 0);
  CHECK(out.jobs_done == scenario.jobs.size());
  return out;
}

}  // namespace

TEST_CASE("a job has each record of a source once, in the order of arrival, until it ends") {
  for (const std::uint64_t records : {1, 3, 4, 5, 8, 100}) {
    CAPTURE(records);
    const Outcomes out = run(scenario_of({{ms(0), records}}, {live_job()}));
    CHECK(out.counted_steps == (records + 3) / 4);
    CHECK(out.rehearsed == 0);
  }
}

// Blocks have four samples, as a rank's batch has.
TEST_CASE("a job goes on in other generations, and its epoch ends with its source alone") {
  for (const std::size_t ranks : {1, 2, 3}) {
    for (const std::uint32_t most : {1, 2, 5, 7, 64, 1000}) {
      for (const std::uint64_t records : {1, 4, 8, 84, 85, 403}) {
        CAPTURE(ranks);
        CAPTURE(most);
        CAPTURE(records);
        Scenario scenario = scenario_of({{ms(0), records}}, {live_job(ranks)});
        scenario.config.live_blocks_most = most;
        std::set<std::uint64_t> generations;
        std::vector<std::uint64_t> ended;
        std::vector<std::uint64_t> last_steps;
        Hooks hooks;
        hooks.commanded = [&](const engine::Command& command) {
          if (const auto* one = std::get_if<engine::EpochEnded>(&command))
            ended.push_back(one->samples);
          const auto* one = std::get_if<engine::Deliver>(&command);
          if (one == nullptr) return;
          generations.insert(one->slices.front().name.generation);
          if (one->last_of_epoch) last_steps.push_back(one->step);
        };
        const Outcomes out = run(scenario, hooks);
        const std::uint64_t step = 4 * ranks;
        const std::uint64_t steps = (records + step - 1) / step;
        const std::uint64_t steps_of_one = std::max<std::uint64_t>(1, most / ranks);
        CHECK(out.counted_steps == steps);
        CHECK(out.rehearsed == 0);
        CHECK(generations.size() == (steps + steps_of_one - 1) / steps_of_one);
        CHECK(ended == std::vector{records});
        CHECK(last_steps == std::vector<std::uint64_t>(ranks, steps - 1));
      }
    }
  }
}

TEST_CASE("a source that ends where a generation does ends its job once") {
  for (const bool drop_last : {false, true}) {
    for (const std::uint64_t more : {0, 1, 3}) {
      JobPlan job = live_job();
      job.drop_last = drop_last;
      job.fills_from = 0;
      Scenario scenario = scenario_of({{ms(0), 16}, {ms(200), 16 + more}}, {job});
      scenario.config.live_blocks_most = 2;
      std::vector<std::uint64_t> ended;
      Hooks hooks;
      hooks.commanded = [&](const engine::Command& command) {
        if (const auto* one = std::get_if<engine::EpochEnded>(&command))
          ended.push_back(one->samples);
      };
      CHECK(run(scenario, hooks).counted_steps == 4 + (more > 0 && !drop_last ? 1 : 0));
      CHECK(ended == std::vector<std::uint64_t>{drop_last ? 16 : 16 + more});
    }
  }
}

TEST_CASE("a tail may be left out") {
  JobPlan job = live_job();
  job.drop_last = true;
  CHECK(run(scenario_of({{ms(0), 11}}, {job})).counted_steps == 2);
  CHECK(run(scenario_of({{ms(0), 3}}, {job})).counted_steps == 0);
}

TEST_CASE("a source that ends when all it had is used ends its jobs") {
  const Outcomes out = run(scenario_of({{ms(0), 8}, {ms(200), 8}}, {live_job(2)}));
  CHECK(out.fillers == 0);
}

TEST_CASE("a source without a record ends its jobs without a step") {
  CHECK(run(scenario_of({{ms(50), 0}}, {live_job()})).counted_steps == 0);
}

TEST_CASE("a slow source holds a job up no longer than was asked for") {
  JobPlan job = live_job();
  Scenario scenario = scenario_of({{ms(0), 8}, {ms(1000), 10}}, {job});
  Instant last{};
  Instant before{};
  Duration longest{0};
  Hooks hooks;
  hooks.before_step = [&](Instant now, std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      if (!std::holds_alternative<engine::BatchConsumed>(event)) continue;
      if (before != Instant{}) longest = std::max(longest, now - before);
      before = now;
    }
    last = now;
  };
  const Outcomes out = run(scenario, hooks);
  // Besides the 20 ms: a read, a preparation, a delivery and a step, each with its jitter.
  CHECK(longest < ms(35));
  CHECK(longest >= ms(20));
  // About a second of fills, all of them from the eight records that there were.
  CHECK(out.rehearsed >= 4 * 25);
}

TEST_CASE("without fills a job waits for its source") {
  JobPlan job = live_job();
  job.fills_from = 0;
  const Outcomes out = run(scenario_of({{ms(0), 6}, {ms(300), 8}, {ms(301), 9}}, {job}));
  CHECK(out.rehearsed == 0);
  CHECK(out.counted_steps == 3);
  CHECK(out.longest_wait >= ms(290));
}

TEST_CASE("before its first record a job waits, since there is nothing to fill with") {
  const Outcomes out = run(scenario_of({{ms(400), 4}, {ms(500), 8}}, {live_job()}));
  CHECK(out.longest_wait >= ms(390));
}

TEST_CASE("where fills only stand for what is missing, each rank has a record") {
  JobPlan job = live_job(2);
  job.fills_cut = true;
  std::vector<DatasetPlan::Arrival> arrivals;
  for (int i = 1; i <= 30; ++i) arrivals.push_back({ms(i * 40), static_cast<std::uint64_t>(i)});
  const Outcomes out = run(scenario_of(arrivals, {job}));
  CHECK(out.rehearsed > 0);
}

TEST_CASE("a first step may be short, before a whole one has ever come") {
  JobPlan job = live_job(2);
  job.batch_samples = 8;
  job.fills_cut = true;
  // It has three records long before the source has more, or ends.
  const Outcomes out = run(scenario_of({{ms(0), 3}, {ms(2000), 5}}, {job}));
  CHECK(out.counted_steps == 2);
  CHECK(out.rehearsed == 16 - 3);
  CHECK(out.longest_wait >= ms(1900));
}

TEST_CASE("jobs of other speeds each have every record") {
  JobPlan slow = live_job(2);
  slow.compute = ms(9);
  slow.batch_samples = 3;
  slow.fills_from = 0;
  std::vector<DatasetPlan::Arrival> arrivals;
  for (int i = 1; i <= 60; ++i) arrivals.push_back({ms(i), static_cast<std::uint64_t>(5 * i)});
  const Outcomes out = run(scenario_of(arrivals, {live_job(), slow}));
  CHECK(out.counted_steps >= 300 / 4 + 300 / 6);
}

TEST_CASE("a log that is half full drops what no job needs, and paces its producers") {
  JobPlan job = live_job();
  job.fills_from = 4;
  std::vector<DatasetPlan::Arrival> arrivals;
  for (int i = 1; i <= 50; ++i) arrivals.push_back({ms(4 * i), static_cast<std::uint64_t>(4 * i)});
  Scenario scenario = scenario_of(arrivals, {job});
  scenario.datasets[0].kept_most = 60 * scenario.datasets[0].bytes;
  std::vector<engine::SourcePaced> paced;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* one = std::get_if<engine::SourcePaced>(&command)) paced.push_back(*one);
  };
  run(scenario, hooks);
  REQUIRE(!paced.empty());
  CHECK(paced.back().needed_from > 100);
  CHECK(std::none_of(paced.begin(), paced.end(), [](const auto& one) { return one.waits; }));
}

TEST_CASE("a source that is faster than its slowest job is slowed down, and thinned") {
  JobPlan job = live_job();
  job.compute = ms(20);
  Scenario scenario = scenario_of({{ms(0), 10}, {ms(1), 50}, {ms(2), 58}, {ms(3), 60}}, {job});
  scenario.datasets[0].kept_most = 60 * scenario.datasets[0].bytes;
  std::vector<engine::SourcePaced> paced;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* one = std::get_if<engine::SourcePaced>(&command)) paced.push_back(*one);
  };
  run(scenario, hooks);
  REQUIRE(!paced.empty());
  constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  CHECK(std::any_of(paced.begin(), paced.end(), [](const auto& one) { return one.waits; }));
  CHECK(
      std::any_of(paced.begin(), paced.end(), [](const auto& one) { return one.taken_part == 0; }));
  CHECK(std::any_of(paced.begin(), paced.end(),
                    [](const auto& one) { return one.taken_part > 0 && one.taken_part < kWhole; }));
  // When the job has caught up, the source goes on as it likes.
  CHECK(!paced.back().waits);
  CHECK(paced.back().taken_part == kWhole);
}

TEST_CASE("another order of a source that grows is refused, and live of one that does not") {
  JobPlan strict = live_job();
  strict.order = Order::strict;
  Hooks hooks;
  std::vector<engine::Refusal> why;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* one = std::get_if<engine::Refuse>(&command)) why.push_back(one->why);
  };
  Driver(scenario_of({{ms(0), 8}}, {strict}), policies::policy_list(), hooks).run();
  Driver(scenario_of({}, {live_job()}), policies::policy_list(), hooks).run();
  REQUIRE(why.size() >= 2);
  CHECK(std::all_of(why.begin(), why.end(),
                    [](engine::Refusal one) { return one == engine::Refusal::wrong_order; }));
}

TEST_CASE("a job that rehearses has fills in each step behind the first, whatever has come") {
  JobPlan job = live_job(2);
  job.rehearsed = 1;
  // 8 records, then 6 in each step, and the 2 that are left.
  const Outcomes all = run(scenario_of({{ms(0), 64}}, {job}));
  CHECK(all.counted_steps == 1 + 9 + 1);
  CHECK(all.rehearsed == 9 * 2);
  job.drop_last = true;
  const Outcomes whole = run(scenario_of({{ms(0), 64}}, {job}));
  CHECK(whole.counted_steps == 1 + 9);
  CHECK(whole.rehearsed == 9 * 2);
}

TEST_CASE("a job that rehearses waits for its records, and then has more fills") {
  JobPlan job = live_job(2);
  job.rehearsed = 3;
  job.fills_after = ms(10'000);  // longer than the source lasts
  const Outcomes patient = run(scenario_of({{ms(0), 8}, {ms(300), 10}, {ms(600), 12}}, {job}));
  CHECK(patient.counted_steps == 3);
  CHECK(patient.rehearsed == 2 * 6);
  CHECK(patient.longest_wait >= ms(250));
  job.fills_after = ms(20);
  const Outcomes filled = run(scenario_of({{ms(0), 8}, {ms(300), 10}, {ms(600), 12}}, {job}));
  CHECK(filled.counted_steps > 3);
  CHECK(filled.rehearsed == 8 * filled.counted_steps - 12);
}

TEST_CASE("a job of a source that grows rehearses what fills its steps, and nothing else") {
  const auto refused = [](auto change) {
    JobPlan job = live_job();
    job.rehearsed = 2;
    change(job);
    Hooks hooks;
    std::vector<engine::Refusal> why;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) why.push_back(one->why);
    };
    Driver(scenario_of({{ms(0), 64}}, {job}), policies::policy_list(), hooks).run();
    REQUIRE(!why.empty());
    return why.front();
  };
  constexpr auto kBad = engine::Refusal::bad_request;
  CHECK(refused([](JobPlan& job) { job.rehearsed = job.batch_samples; }) == kBad);
  CHECK(refused([](JobPlan& job) { job.fills_from = 0; }) == kBad);
  CHECK(refused([](JobPlan& job) { job.fills_cut = true; }) == kBad);
  CHECK(refused([](JobPlan& job) { job.reservoir = 9; }) == kBad);
  CHECK(refused([](JobPlan& job) {
          job.fills_from = 0;
          job.reservoir = (1 << 16) + 1;
        }) == engine::Refusal::other_buffer);
  CHECK(refused([](JobPlan& job) {
          job.buffer_policy = "reservoir";
          job.buffer_exemplars = 8;
        }) == kBad);
}

TEST_CASE("a job rehearses from a reservoir while its log drops what it is drawn from") {
  JobPlan job = live_job(2);
  job.fills_from = 0;
  job.reservoir = 12;
  job.rehearsed = 2;
  std::vector<DatasetPlan::Arrival> arrivals;
  for (int i = 1; i <= 50; ++i) arrivals.push_back({ms(4 * i), static_cast<std::uint64_t>(4 * i)});
  Scenario scenario = scenario_of(arrivals, {job, job});
  scenario.datasets[0].kept_most = 120 * scenario.datasets[0].bytes;
  std::vector<order::ReservoirName> told;
  std::uint64_t needed_from = 0;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    const auto* one = std::get_if<engine::SourcePaced>(&command);
    if (one == nullptr || one->needed_from == needed_from) return;
    needed_from = one->needed_from;
    told.assign(one->reservoirs.begin(), one->reservoirs.end());
    CHECK(told.size() == 1);  // of both jobs, while there is one
  };
  const Outcomes out = run(scenario, hooks);
  CHECK(out.rehearsed > 0);
  CHECK(needed_from > 100);
  CHECK(told == std::vector{order::ReservoirName{0, 0, 12}});
}

// The checker draws each fill again, and the driver's log has what was to be kept of it alone.
TEST_CASE("kills and resizes lose no exemplar of records that are long gone") {
  std::uint64_t gone = 0;
  const auto seeds = sanitized_share(100);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(hash(78, seed));
    JobPlan job = live_job(1 + random.below(3));
    job.batch_samples = static_cast<std::uint32_t>(2 + random.below(6));
    job.credits = static_cast<std::uint32_t>(1 + random.below(3));
    job.fills_after = ms(static_cast<std::int64_t>(random.below(10)));
    job.fills_from = 0;
    job.reservoir = static_cast<std::uint32_t>(1 + random.below(12));
    job.rehearsed = 1;
    std::vector<DatasetPlan::Arrival> arrivals;
    for (std::uint64_t i = 1; i <= 100; ++i)
      arrivals.push_back({ms(static_cast<std::int64_t>(2 * i)), 10 * i});
    Scenario scenario = scenario_of(arrivals, {job});
    scenario.datasets[0].kept_most = 120 * scenario.datasets[0].bytes;
    scenario.seed = seed;
    scenario.heal = ms(400);
    scenario.failures = {10, 10, 10, 0, 10};
    constexpr Fault::Kind kKinds[] = {Fault::Kind::coordinator_lost, Fault::Kind::rank_lost,
                                      Fault::Kind::job_resized, Fault::Kind::job_leaves};
    for (int i = 0; i < 6; ++i) {
      Fault fault{};
      fault.kind = kKinds[random.below(4)];
      fault.when = us(static_cast<std::int64_t>(random.below(200'000)));
      fault.batch_samples = static_cast<std::uint32_t>(2 + random.below(5));
      fault.ranks.assign(1 + random.below(3), NodeId(1));
      fault.later = ms(static_cast<std::int64_t>(1 + random.below(20)));
      scenario.faults.push_back(fault);
    }
    scenario.from_promises = random.below(2) == 0;
    if (random.below(2) == 0)
      scenario.config.live_blocks_most = 1 + static_cast<std::uint32_t>(random.below(12));
    CAPTURE(seed);
    INFO("replay: test_driver --test-case='kills and resizes lose no exemplar*', seed ", seed);
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::SourcePaced>(&command))
        gone = std::max(gone, one->needed_from);
    };
    try {
      const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
      CHECK(out.jobs_done == 1);
      CHECK(out.engine.protocol_errors == 0);
    } catch (const Violation& violation) {
      const std::string said = scenario.text() + violation.what();
      FAIL_CHECK(said);
    }
  }
  CHECK(gone > 900);
}

TEST_CASE("the driver sees a log that is not told of a reservoir") {
  JobPlan job = live_job();
  job.fills_from = 0;
  job.reservoir = 12;
  job.rehearsed = 2;
  std::vector<DatasetPlan::Arrival> arrivals;
  for (int i = 1; i <= 50; ++i) arrivals.push_back({ms(4 * i), static_cast<std::uint64_t>(4 * i)});
  Scenario scenario = scenario_of(arrivals, {job});
  scenario.datasets[0].kept_most = 120 * scenario.datasets[0].bytes;
  Hooks hooks;
  hooks.spoil = [](std::vector<engine::Command>& commands) {
    for (engine::Command& command : commands)
      if (auto* one = std::get_if<engine::SourcePaced>(&command)) one->reservoirs = {};
  };
  Driver driver(scenario, policies::policy_list(), hooks);
  CHECK_THROWS_AS(driver.run(), Violation);
}

TEST_CASE("reservoirs of one source have no more exemplars than there is room for") {
  JobPlan job = live_job();
  job.fills_from = 0;
  job.reservoir = 1 << 16;
  job.rehearsed = 2;
  JobPlan other = job;
  other.reservoir = 1;
  other.joins = ms(20);
  Hooks hooks;
  std::vector<engine::Refusal> why;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* one = std::get_if<engine::Refuse>(&command)) why.push_back(one->why);
  };
  const Scenario scenario = scenario_of({{ms(0), 64}, {ms(300), 80}}, {job, other});
  Driver(scenario, policies::policy_list(), hooks).run();
  REQUIRE(!why.empty());
  CHECK(why.front() == engine::Refusal::other_buffer);
}

TEST_CASE("exemplars that a live job reports are an error of its protocol") {
  JobPlan job = live_job();
  job.rehearsed = 2;
  job.exemplars = {SampleId(1), SampleId(2)};
  const Outcomes out = Driver(scenario_of({{ms(0), 64}}, {job}), policies::policy_list()).run();
  CHECK(out.engine.protocol_errors == 1);
  CHECK(out.jobs_done == 1);
}

TEST_CASE("corrupt records are replaced by others that are there") {
  Scenario scenario = scenario_of({{ms(0), 40}}, {live_job()});
  scenario.datasets[0].corrupt = {SampleId(3), SampleId(21)};
  CHECK(run(scenario).replaced == 2);
}

TEST_CASE("kills, resizes and sources of any speed lose no record and double none") {
  const auto seeds = sanitized_share(300);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(hash(77, seed));
    std::vector<DatasetPlan::Arrival> arrivals;
    std::uint64_t end = 0;
    Duration when{0};
    for (std::uint64_t i = 5 + random.below(40); i > 0; --i) {
      // Bursts, and pauses between them.
      when += random.below(4) == 0 ? ms(static_cast<std::int64_t>(random.below(60)))
                                   : us(static_cast<std::int64_t>(random.below(2000)));
      end += random.below(3) == 0 ? random.below(40) : random.below(5);
      arrivals.push_back({when, end});
    }
    std::vector<JobPlan> jobs;
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
      JobPlan job = live_job(1 + random.below(3));
      job.batch_samples = static_cast<std::uint32_t>(1 + random.below(8));
      job.credits = static_cast<std::uint32_t>(1 + random.below(3));
      job.fills_after = ms(static_cast<std::int64_t>(random.below(10)));
      job.fills_from = random.below(3) == 0 ? 0 : random.below(40);
      job.fills_cut = random.below(3) == 0;
      if (job.fills_from > 0 && !job.fills_cut && random.below(2) == 0)
        job.rehearsed = static_cast<std::uint32_t>(random.below(job.batch_samples));
      if (job.rehearsed > 0 && random.below(2) == 0) {
        job.fills_from = 0;
        job.reservoir = static_cast<std::uint32_t>(1 + random.below(40));
      }
      job.drop_last = random.below(3) == 0;
      job.hold = us(static_cast<std::int64_t>(random.below(2000)));
      jobs.push_back(job);
    }
    Scenario scenario = scenario_of(arrivals, jobs);
    scenario.seed = seed;
    scenario.heal = ms(200);
    if (random.below(2) == 0)
      scenario.failures = {static_cast<std::uint32_t>(random.below(30)),
                           static_cast<std::uint32_t>(random.below(30)),
                           static_cast<std::uint32_t>(random.below(30)), 0, 10};
    for (std::uint64_t i = random.below(4); i > 0; --i) {
      Fault fault{};
      const std::uint64_t kind = random.below(5);
      fault.kind = kind == 0   ? Fault::Kind::coordinator_lost
                   : kind == 1 ? Fault::Kind::rank_lost
                   : kind == 2 ? Fault::Kind::job_resized
                   : kind == 3 ? Fault::Kind::job_leaves
                               : Fault::Kind::worker_lost;
      fault.when = us(static_cast<std::int64_t>(random.below(100'000)));
      fault.number = random.below(jobs.size());
      fault.batch_samples = static_cast<std::uint32_t>(1 + random.below(6));
      fault.ranks.assign(1 + random.below(3), NodeId(1));
      fault.later = ms(static_cast<std::int64_t>(1 + random.below(20)));
      scenario.faults.push_back(fault);
    }
    scenario.from_promises = random.below(2) == 0;
    if (random.below(2) == 0)
      scenario.config.live_blocks_most = 1 + static_cast<std::uint32_t>(random.below(12));
    CAPTURE(seed);
    INFO("replay: test_driver --test-case='kills, resizes and sources*', seed ", seed);
    try {
      const Outcomes out = Driver(scenario, policies::policy_list()).run();
      CHECK(out.jobs_done == jobs.size());
      CHECK(out.engine.protocol_errors == 0);
    } catch (const Violation& violation) {
      const std::string said = scenario.text() + violation.what();
      FAIL_CHECK(said);
    }
  }
}

TEST_CASE("the checker sees a step that rehearses too little") {
  JobPlan job = live_job();
  job.rehearsed = 1;
  Hooks hooks;
  hooks.handed = [](std::vector<Handed>& samples, Rank, std::uint64_t step) {
    if (step != 1) return;
    samples[3].rehearsed = false;
    samples[3].visited = samples[3].used = SampleId(7);
    samples[3].occurrence = 0;
  };
  Driver driver(scenario_of({{ms(0), 100}}, {job}), policies::policy_list(), hooks);
  CHECK_THROWS_AS(driver.run(), Violation);
}

TEST_CASE("the checker sees a record that is lost, doubled, or out of turn") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    Hooks hooks;
    hooks.handed = [&](std::vector<Handed>& samples, Rank, std::uint64_t step) {
      if (step != 2) return;
      if (how == 0) samples[1].visited = samples[1].used = SampleId(50);
      if (how == 1) samples[1].visited = samples[1].used = SampleId(2);
      if (how == 2) std::swap(samples[0].visited, samples[1].visited);
      if (how == 2) std::swap(samples[0].used, samples[1].used);
    };
    Driver driver(scenario_of({{ms(0), 100}}, {live_job()}), policies::policy_list(), hooks);
    CHECK_THROWS_AS(driver.run(), Violation);
  }
}

}  // namespace batchflow::test::live_driver_test
