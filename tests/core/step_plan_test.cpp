#include "core/order/step_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::step_plan_test {

namespace {

// The indices that a rank's batch lists, in order.
void append(const order::RankBatch& batch, std::vector<std::uint64_t>& own,
            std::vector<std::uint64_t>& fillers) {
  for (std::uint64_t p = batch.own.from; p < batch.own.to; ++p) own.push_back(p);
  for (const order::IndexRange& range : batch.fillers) {
    for (std::uint64_t p = range.from; p < range.to; ++p) fillers.push_back(p);
  }
}

// One step: all ranks have equal counts, own indices continue the epoch, fillers repeat the step's
// own indices cyclically. Returns the samples consumed after it.
std::uint64_t check_step(const order::StepPlan& plan, std::uint64_t t, std::uint64_t consumed) {
  std::vector<std::uint64_t> own;
  std::vector<std::uint64_t> fillers;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
    const order::RankBatch batch = plan.batch(t, rank);
    REQUIRE(batch.count() == plan.rank_samples(t));
    REQUIRE(batch.count() <= plan.batch_samples);
    append(batch, own, fillers);
  }
  REQUIRE(!own.empty());
  for (std::size_t i = 0; i < own.size(); ++i) REQUIRE(own[i] == consumed + i);
  REQUIRE(fillers.size() <= plan.ranks - 1);
  for (std::size_t i = 0; i < fillers.size(); ++i) REQUIRE(fillers[i] == own[i % own.size()]);
  const bool whole = own.size() == plan.step_samples();
  REQUIRE((whole ? fillers.empty() : consumed + own.size() == plan.samples && !plan.drop_last));
  return consumed + own.size();
}

// An epoch of up to five plans, each going on from a step of the one before.
void check_epoch(std::uint64_t seed) {
  INFO("seed = " << seed);
  Random random(hash(12, seed));
  order::StepPlan plan;
  plan.samples = 1 + random.below(2000);
  for (std::uint64_t resumes = random.below(5) + 1; resumes > 0; --resumes) {
    plan.ranks = static_cast<std::uint32_t>(1 + random.below(17));
    plan.batch_samples = static_cast<std::uint32_t>(1 + random.below(40));
    plan.drop_last = random.below(2) == 0;
    const std::uint64_t steps = plan.steps();
    const std::uint64_t run = resumes == 1 ? steps : random.below(steps + 1);
    std::uint64_t consumed = plan.consumed;
    for (std::uint64_t t = 0; t < run; ++t) consumed = check_step(plan, t, consumed);
    plan.consumed = consumed;
  }
  REQUIRE(plan.samples - plan.consumed <= (plan.drop_last ? plan.step_samples() - 1 : 0));
}

}  // namespace

TEST_CASE("a tail by hand: 10 samples, 4 ranks of 2") {
  const order::StepPlan plan{.samples = 10, .ranks = 4, .batch_samples = 2};
  CHECK(plan.steps() == 2);
  CHECK(plan.batch(0, 3).own == order::IndexRange{6, 8});
  CHECK(plan.rank_samples(1) == 1);
  CHECK(plan.batch(1, 1).own == order::IndexRange{9, 10});
  CHECK(plan.batch(1, 2).own.count() == 0);
  CHECK(plan.batch(1, 2).fillers[0] == order::IndexRange{8, 9});
  CHECK(plan.batch(1, 3).fillers[0] == order::IndexRange{9, 10});
  CHECK(order::StepPlan{.samples = 10, .ranks = 4, .batch_samples = 2, .drop_last = true}.steps() ==
        1);
}

TEST_CASE("fillers wrap around: 3 samples left for 2 ranks, 1 for 5") {
  const order::StepPlan two{.samples = 13, .consumed = 10, .ranks = 2, .batch_samples = 4};
  CHECK(two.batch(0, 1).own == order::IndexRange{12, 13});
  CHECK(two.batch(0, 1).fillers[0] == order::IndexRange{10, 11});
  const order::StepPlan five{.samples = 11, .consumed = 10, .ranks = 5, .batch_samples = 4};
  for (std::uint32_t rank = 1; rank < 5; ++rank) {
    CHECK(five.batch(0, rank).fillers[0] == order::IndexRange{10, 11});
  }
}

TEST_CASE("nothing left is no step") {
  CHECK(order::StepPlan{.samples = 7, .consumed = 7, .ranks = 3, .batch_samples = 2}.steps() == 0);
  CHECK(order::StepPlan{.samples = 0, .consumed = 0, .ranks = 3, .batch_samples = 2}.steps() == 0);
}

TEST_CASE("the greatest numbers do not overflow") {
  const order::StepPlan plan{.samples = 1'000'000'000'000,
                             .consumed = 1,
                             .ranks = UINT32_MAX,
                             .batch_samples = UINT32_MAX};
  CHECK(plan.steps() == 1);
  const order::RankBatch last = plan.batch(0, UINT32_MAX - 1);
  CHECK(last.count() == plan.rank_samples(0));
  CHECK(plan.rank_samples(0) == 233);  // ceil((10^12 - 1) / (2^32 - 1))
}

TEST_CASE("20,000 random plans with resumes at other sizes, both tails: exact") {
  for (std::uint64_t seed = 0; seed < sanitized_share(20'000); ++seed) check_epoch(seed);
}

}  // namespace batchflow::test::step_plan_test
