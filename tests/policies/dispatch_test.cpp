// Every dispatch policy over random candidates and in a closed loop of jobs: it names only
// candidates that exist, no job starves, and it gives the same answer again. The built-in policies
// also in sequences by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/policies/random_seeds.h"
#include "tests/policies/random_views.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::dispatch_test {

namespace {

// Jobs of one stream, each of which needs its next block as soon as it has been served. A block
// lasts a job `period`, so faster jobs run ahead.
class ClosedLoop {
 public:
  ClosedLoop(std::vector<Duration> periods)
      : periods_(std::move(periods)), blocks_(periods_.size()) {
    for (std::uint32_t i = 0; i < periods_.size(); ++i) {
      engine::WorkCandidate candidate{};
      candidate.job = JobId(i);
      candidate.asked = ++asked_;
      candidate.depth = 4;
      candidate.needed_by = 1 + i % 3;
      candidates_.push_back(candidate);
    }
  }

  // The job that was served, or kNoChoice.
  std::size_t serve(engine::DispatchPolicy& policy) {
    const std::size_t choice = policy.next({Instant(Duration(++decisions_)), candidates_});
    if (choice == engine::kNoChoice) return choice;
    REQUIRE(choice < candidates_.size());
    engine::WorkCandidate& served = candidates_[choice];
    served.last_served = static_cast<std::uint64_t>(decisions_);
    served.asked = ++asked_;
    served.deadline += periods_[choice];
    ++blocks_[choice];
    const std::uint32_t slowest = *std::min_element(blocks_.begin(), blocks_.end());
    for (std::size_t i = 0; i < blocks_.size(); ++i) candidates_[i].lead = blocks_[i] - slowest;
    return choice;
  }
  std::vector<std::size_t> serve(engine::DispatchPolicy& policy, int times) {
    std::vector<std::size_t> served;
    for (int i = 0; i < times; ++i) served.push_back(serve(policy));
    return served;
  }
  const std::vector<engine::WorkCandidate>& candidates() const { return candidates_; }

 private:
  std::vector<Duration> periods_;
  std::vector<std::uint32_t> blocks_;  // that each has had
  std::vector<engine::WorkCandidate> candidates_;
  std::uint64_t asked_ = 0;
  std::int64_t decisions_ = 0;
};

auto dispatch(std::string_view text) {
  return make<engine::MakeDispatch>(
      policies::policy_list().choose(engine::PolicyKind::dispatch, text));
}
using Served = std::vector<std::size_t>;
constexpr Duration kMs = std::chrono::milliseconds(1);

// The most decisions between two in which the same job is served.
std::size_t longest_wait(engine::DispatchPolicy& policy, const std::vector<Duration>& periods) {
  ClosedLoop loop(periods);
  std::vector<std::size_t> last(periods.size(), 0);
  std::size_t longest = 0;
  for (std::size_t decision = 1; decision <= 300 * periods.size(); ++decision) {
    const std::size_t served = loop.serve(policy);
    REQUIRE_MESSAGE(served != engine::kNoChoice, "the slowest job was held back too");
    last[served] = decision;
    for (const std::size_t at : last) longest = std::max(longest, decision - at);
  }
  return longest;
}

}  // namespace

TEST_CASE("dispatch chooses a candidate that there is, or holds all back") {
  for_seeds("test_policies", "dispatch chooses*", 2000, [](std::uint64_t seed) {
    for (const engine::PolicyChoice& choice : variants_of(engine::PolicyKind::dispatch)) {
      CAPTURE(choice.text());
      Random random(hash(seed, 3));
      const auto policy = make<engine::MakeDispatch>(choice, seed);
      const auto again = make<engine::MakeDispatch>(choice, seed);
      for (int ask = 0; ask < 5; ++ask) {
        const auto candidates = random_work(random, 1 + random.below(40));
        const engine::DispatchView view{Instant(Duration(ask)), candidates};
        const std::size_t next = policy->next(view);
        CHECK(next == again->next(view));
        CHECK((next == engine::kNoChoice || next < candidates.size()));
      }
    }
  });
}

// With n jobs at speeds that differ by a factor of at most 8. By deadlines, while a job waits for
// its turn (its period p after the last) each other job is served at most p / p' + 2 <= 10 times;
// the 100 are for policies that are patient.
TEST_CASE("dispatch lets no job wait for more than 10 n + 100 decisions") {
  for_seeds("test_policies", "dispatch lets no job*", 30, [](std::uint64_t seed) {
    Random random(hash(seed, 5));
    std::vector<Duration> periods(1 + random.below(16));
    for (Duration& period : periods) period = kMs * (1 + static_cast<int>(random.below(8)));
    for (const engine::PolicyEntry* entry :
         tested_policies().of_kind(engine::PolicyKind::dispatch)) {
      CAPTURE(entry->name);
      if (entry->may_starve) continue;
      const auto policy =
          make<engine::MakeDispatch>(engine::PolicyChoice{entry, Parameters(entry->parameters)});
      CHECK(longest_wait(*policy, periods) <= 10 * periods.size() + 100);
    }
    for (const char* by_deadline : {"earliest-deadline", "bounded-lag", "bounded-lag:blocks=1"}) {
      CHECK(longest_wait(*dispatch(by_deadline), periods) <= 10 * periods.size());
    }
    for (const char* in_turns : {"fifo", "round-robin", "coordinated", "coordinated:staging=1"}) {
      CHECK(longest_wait(*dispatch(in_turns), periods) == periods.size() - 1);
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
