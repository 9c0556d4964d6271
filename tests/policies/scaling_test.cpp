// Every scaling policy over random views: no more workers than there are cores, no look-ahead
// beyond the window, the same answer again.
#include <doctest/doctest.h>

#include "tests/policies/random_seeds.h"
#include "tests/policies/random_views.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::scaling_test {

namespace {

engine::NodeView node_of(std::uint32_t cores) {
  engine::NodeView node{};
  node.workers_most = cores;
  return node;
}
engine::JobView job_of(std::uint32_t window, std::uint32_t ranks = 1) {
  engine::JobView job{};
  job.ranks = ranks;
  job.window = window;
  return job;
}
auto scaling(std::string_view text) {
  return make<engine::MakeScaling>(
      policies::policy_list().choose(engine::PolicyKind::scaling, text));
}

}  // namespace

TEST_CASE("scaling stays within the cores and the window") {
  for_seeds("test_policies", "scaling stays*", 2000, [](std::uint64_t seed) {
    for (const engine::PolicyChoice& choice : variants_of(engine::PolicyKind::scaling)) {
      CAPTURE(choice.text());
      Random random(hash(seed, 4));
      const auto policy = make<engine::MakeScaling>(choice, seed);
      const auto again = make<engine::MakeScaling>(choice, seed);
      for (int ask = 0; ask < 10; ++ask) {
        const engine::NodeView node = random_node(random);
        const std::uint32_t workers = policy->workers(node);
        CHECK(workers <= node.workers_most);
        CHECK(workers == again->workers(node));
        const engine::JobView job = random_job(random);
        const std::uint32_t depth = policy->depth(job);
        CHECK(depth <= job.window);
        CHECK(depth == again->depth(job));
      }
    }
  });
}

TEST_CASE("static gives the number it was given, as far as there are so many") {
  CHECK(scaling("static")->workers(node_of(16)) == 16);
  CHECK(scaling("static")->depth(job_of(100)) == 4);
  CHECK(scaling("static")->depth(job_of(3)) == 3);
  CHECK(scaling("static")->depth(job_of(100, 8)) == 32);
  CHECK(scaling("static")->depth(job_of(UINT32_MAX, UINT32_MAX)) == UINT32_MAX);
  CHECK(scaling("static:workers=3")->workers(node_of(16)) == 3);
  CHECK(scaling("static:workers=3")->workers(node_of(2)) == 2);
  CHECK(scaling("static:depth=0")->depth(job_of(100)) == 0);
  CHECK(scaling("static:depth=4096")->depth(job_of(100)) == 100);
}

TEST_CASE("look-ahead covers what is used up while a block is prepared") {
  engine::JobView job = job_of(100);
  CHECK(scaling("look-ahead")->workers(node_of(16)) == 16);
  CHECK(scaling("look-ahead")->depth(job) == 4);  // nothing is measured yet
  job.prepare_s = .41;
  job.blocks_per_step = 1;
  CHECK(scaling("look-ahead")->depth(job) == 4);
  job.step_s = .1;
  CHECK(scaling("look-ahead")->depth(job) == 4 + 5);
  job.blocks_per_step = .5;
  CHECK(scaling("look-ahead")->depth(job) == 4 + 3);
  CHECK(scaling("look-ahead:ready=0")->depth(job) == 3);
  // A step that takes no time counts as the shortest possible: all the window.
  job.step_s = 1e-9;
  CHECK(scaling("look-ahead")->depth(job) == 100);
  job.step_s = .1;
  job.prepare_s = 1e300;
  CHECK(scaling("look-ahead")->depth(job) == 100);
}

}  // namespace batchflow::test::scaling_test
