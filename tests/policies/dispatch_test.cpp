// Every dispatch policy in a closed loop of jobs: no job starves. The built-in policies also in
// sequences by hand.
#include <doctest/doctest.h>

#include "policies/conformance/closed_loop.h"
#include "policies/conformance/conformance.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::dispatch_test {

using conformance::ClosedLoop;
using conformance::longest_wait;

namespace {

auto dispatch(std::string_view text) {
  return make<engine::MakeDispatch>(
      policies::policy_list().choose(engine::PolicyKind::dispatch, text));
}
using Served = std::vector<std::size_t>;
constexpr Duration kMs = std::chrono::milliseconds(1);

}  // namespace

TEST_CASE("dispatch lets no job wait for more than 10 n + 100 decisions") {
  for_seeds("test_policies", "dispatch lets no job*", 30, [](std::uint64_t seed) {
    Random random(hash(seed, 5));
    std::vector<Duration> periods(1 + random.below(16));
    for (Duration& period : periods) period = kMs * (1 + static_cast<int>(random.below(8)));
    for (const engine::PolicyEntry* entry :
         tested_policies().of_kind(engine::PolicyKind::dispatch)) {
      CAPTURE(entry->name);
      if (entry->may_starve) continue;
      const engine::PolicyChoice choice{entry, Parameters(entry->parameters)};
      CHECK_NOTHROW(conformance::check_fairness(choice, seed));
    }
    for (const char* by_deadline : {"earliest-deadline", "bounded-lag", "bounded-lag:blocks=1"}) {
      CHECK(*longest_wait(*dispatch(by_deadline), periods) <= 10 * periods.size());
    }
    for (const char* in_turns : {"fifo", "round-robin", "coordinated", "coordinated:staging=1"}) {
      CHECK(*longest_wait(*dispatch(in_turns), periods) == periods.size() - 1);
    }
  });
}

TEST_CASE("fifo serves in the order in which needs arose") {
  ClosedLoop loop({kMs, kMs, kMs});
  CHECK(loop.serve(*dispatch("fifo"), 6) == Served{0, 1, 2, 0, 1, 2});
  engine::WorkCandidate late{}, early{};
  late.asked = 9;
  early.asked = 4;
  const std::vector<engine::WorkCandidate> both{late, early};
  CHECK(dispatch("fifo")->next({Instant{}, both}) == 1);
  CHECK(dispatch("fifo")->next({Instant{}, {}}) == engine::kNoChoice);
}

TEST_CASE("round-robin by users serves one of two jobs of a user for each turn of another's") {
  std::vector<engine::WorkCandidate> jobs(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    jobs[i].job = JobId(i);
    jobs[i].asked = i + 1;
    jobs[i].user = i < 2 ? 7 : 8;
  }
  const auto policy = dispatch("round-robin:users=true");
  std::vector<std::size_t> served;
  for (std::uint64_t turn = 1; turn <= 8; ++turn) {
    served.push_back(policy->next({Instant{}, jobs}));
    jobs.at(served.back()).last_served = turn;
  }
  CHECK(served == std::vector<std::size_t>{0, 2, 1, 2, 0, 2, 1, 2});
}

TEST_CASE("round-robin serves the job with the oldest turn, the older need among new jobs") {
  std::vector<engine::WorkCandidate> jobs(3);
  jobs[0].last_served = 7, jobs[0].asked = 1;
  jobs[1].last_served = 0, jobs[1].asked = 9;
  jobs[2].last_served = 0, jobs[2].asked = 5;
  Served served;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::size_t next = dispatch("round-robin")->next({Instant{}, jobs});
    jobs[next].last_served = jobs[next].asked = 10 + i;
    served.push_back(next);
  }
  // A job that never had a turn gets one; turns of the other before it came do not count against
  // it.
  CHECK(served == Served{2, 1, 0, 2, 1, 0, 2, 1});
}

TEST_CASE("earliest-deadline serves by speed") {
  // Deadlines 0, 0; then 1 against 3: the fast job is served until it has as much time as the slow.
  ClosedLoop loop({kMs, 3 * kMs});
  // fast 0 -> 1; slow 0 -> 3; fast 1 -> 2 -> 3; tie at 3: the slow one's need is older.
  CHECK(loop.serve(*dispatch("earliest-deadline"), 8) == Served{0, 1, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("batchflow serves by slack, weight and latency target") {
  std::vector<engine::WorkCandidate> jobs(2);
  for (engine::WorkCandidate& job : jobs) {
    job.weight = 1;
    job.deadline = Instant(5 * kMs);
  }
  jobs[0].asked = 1, jobs[1].asked = 2;
  const auto next = [&](Duration now) { return dispatch("batchflow")->next({Instant(now), jobs}); };
  CHECK(next(Duration(0)) == 0);
  jobs[1].deadline = Instant(4 * kMs);
  CHECK(next(Duration(0)) == 1);
  // A job that may wait for 3 ms has 7 left, and the other 5.
  jobs[1].latency_target = 3 * kMs;
  CHECK(next(Duration(0)) == 0);
  // Twice the weight makes 3.5 of the 7. After both times are over, it makes 26 of 13.
  jobs[1].weight = 2;
  CHECK(next(Duration(0)) == 1);
  CHECK(next(20 * kMs) == 1);
  jobs[1].weight = 1;
  CHECK(next(20 * kMs) == 0);
}

TEST_CASE("nearest-by-link makes a block where it is there first, links included") {
  engine::WorkCandidate work{};
  work.prepare_s = 1;
  std::vector<engine::NodeCandidate> nodes(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    nodes[i] = {NodeId(i), 1, 4, 3, 0, 0.5};
    nodes[i].to_fetch = 1000;
    nodes[i].to_send = 2000;
  }
  const auto policy = dispatch("nearest-by-link");
  REQUIRE(policy->chooses_nodes());
  const auto chosen = [&] { return policy->choose_node({work, nodes}); };
  // Alike: 4 blocks on 4 workers. One block more makes 1.25 s of 1, and 5 workers 1 s of 1.25.
  CHECK(chosen() == 0);
  nodes[0].started = 4;
  CHECK(chosen() == 1);
  nodes[0].workers = 5;
  CHECK(chosen() == 0);
  // What is not known of a link costs nothing. Known, it is 0.1 s for what comes and 0.4 s for what
  // goes; and on the second node 0.05 s and 0.2 s, of which half is for what goes before it.
  nodes[0].in_per_s = 10'000, nodes[0].out_per_s = 5'000;
  CHECK(chosen() == 1);
  nodes[1].in_per_s = 40'000, nodes[1].coming = 1000;
  nodes[1].out_per_s = 20'000, nodes[1].going = 2000;
  CHECK(chosen() == 1);
  nodes[1].coming = 7000;  // 0.2 s
  CHECK(chosen() == 1);
  nodes[1].going = 5000;  // 0.35 s
  CHECK(chosen() == 0);
  // Where a block needs nothing of a link, it matters neither how slow that is nor what is on it.
  nodes[1].to_fetch = nodes[1].to_send = 0;
  nodes[1].ranks = 0;
  CHECK(chosen() == 1);
  // Of nodes that are alike, the one with more ranks.
  nodes[0] = nodes[1];
  CHECK(chosen() == 0);
  nodes[1].ranks = 1, nodes[1].to_send = nodes[0].to_send = 10;
  CHECK(chosen() == 1);
  // A node that takes the whole block itself makes it, and of two of these the one whose ranks have
  // less ahead.
  nodes[0].ranks = 2, nodes[0].ahead = 3, nodes[0].to_send = 0, nodes[0].started = 60;
  CHECK(chosen() == 0);
  nodes[1].ahead = 2, nodes[1].to_send = 0;
  CHECK(chosen() == 0);
  nodes[1].ahead = 1;
  CHECK(chosen() == 1);
}

TEST_CASE("bounded-lag holds back a job that is ahead, at any deadline") {
  ClosedLoop loop({kMs, 8 * kMs});
  // As by deadline, but job 0 stops when it is 2 blocks ahead: 0 (1:0), 1 (1:1), 0 0 (3:1), now
  // 0 has to wait for 1, and so on.
  CHECK(loop.serve(*dispatch("bounded-lag:blocks=2"), 8) == Served{0, 1, 0, 0, 1, 0, 1, 0});
  std::vector<engine::WorkCandidate> ahead(2);
  ahead[0].lead = ahead[1].lead = 2;
  CHECK(dispatch("bounded-lag:blocks=2")->next({Instant{}, ahead}) == engine::kNoChoice);
  CHECK(dispatch("bounded-lag:blocks=3")->next({Instant{}, ahead}) == 0);
}

TEST_CASE("coordinated jobs take turns and wait at the end of the staging area") {
  ClosedLoop loop({kMs, 8 * kMs, 2 * kMs});
  CHECK(loop.serve(*dispatch("coordinated"), 6) == Served{0, 1, 2, 0, 1, 2});
  std::vector<engine::WorkCandidate> jobs(2);
  jobs[0].last_served = 1, jobs[0].lead = 4;
  jobs[1].last_served = 5, jobs[1].lead = 0;
  CHECK(dispatch("coordinated:staging=4")->next({Instant{}, jobs}) == 1);
  CHECK(dispatch("coordinated:staging=5")->next({Instant{}, jobs}) == 0);
  jobs[1].lead = 4;
  CHECK(dispatch("coordinated:staging=4")->next({Instant{}, jobs}) == engine::kNoChoice);
}

}  // namespace batchflow::test::dispatch_test
