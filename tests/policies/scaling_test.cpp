// The built-in scaling policies case by case. (conformance_test.cpp has all of them over random
// views.)
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/policies/random_seeds.h"
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

namespace {

// A node with so many cores, on which `time` is what a sample takes with so many workers, after as
// many reports: how many workers each of them led to.
std::vector<std::uint32_t> searched(const char* policy, std::uint32_t cores,
                                    const std::function<double(double)>& time, int reports,
                                    double wanted_per_s = 0) {
  const auto scales = scaling(policy);
  std::vector<std::uint32_t> workers;
  engine::NodeView node = node_of(cores);
  node.now = Instant(std::chrono::seconds(1));
  node.workers_now = 1;
  for (int report = 0; report < reports; ++report) {
    node.made_per_s = 1 / time(node.workers_now);
    node.busy_part = 1;
    node.wanted_per_s = wanted_per_s;
    node.workers_now = scales->workers(node);
    workers.push_back(node.workers_now);
    node.now += std::chrono::seconds(20);
  }
  return workers;
}

}  // namespace

// The examples worked out for Cachew's rule: a worker must bring 7 %.
TEST_CASE("cachew adds workers as long as samples come faster") {
  const auto last = [](const std::function<double(double)>& time) {
    return searched("cachew", 64, time, 18).back();
  };
  // It tries 2, 3, 4 and 5, and goes back to 4.
  const std::vector<std::uint32_t> tried = searched(
      "cachew", 64, [](double w) { return std::max(.26, 1 / w); }, 7);
  CHECK(tried == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 4, 4});
  CHECK(last([](double w) { return std::max(.26, .1 + 1 / w); }) == 6);
  // Whatever the demand: the fifteenth would bring 6.7 %.
  CHECK(last([](double w) { return 1 / w; }) == 14);
  // After twenty reports it tries whether one fewer costs less than 3 %.
  const auto flat = [](double w) { return std::max(.26, 1 / w); };
  const std::vector<std::uint32_t> later = searched("cachew", 64, flat, 40);
  CHECK(*std::min_element(later.begin() + 20, later.end()) == 3);
  CHECK(later.back() == 4);
}

TEST_CASE("fastmatch reaches the workers that are needed in one step, and the exact ones") {
  const auto linear = [](double w) { return 1 / (100 * w); };
  CHECK(searched("fastmatch", 64, linear, 3, 1200) == std::vector<std::uint32_t>{12, 12, 12});
  CHECK(searched("cachew", 64, linear, 13).back() == 13);  // one at a time
  // Beside the exact solution of |P - Q|, over all numbers of workers: it produces no less than is
  // consumed, so it may have one worker more.
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const double each = 10 + static_cast<double>(random.below(1000));
    const double wanted = 1 + static_cast<double>(random.below(20'000));
    const auto cores = static_cast<std::uint32_t>(1 + random.below(16));
    const auto off = [&](std::uint32_t w) { return std::abs(each * w - wanted); };
    std::uint32_t exact = 1;
    for (std::uint32_t w = 2; w <= cores; ++w) exact = off(w) < off(exact) ? w : exact;
    const std::uint32_t found =
        searched(
            "fastmatch:threshold=0.001", cores, [&](double w) { return 1 / (each * w); }, 4, wanted)
            .back();
    CHECK((found == exact || (found == exact + 1 && each * exact < wanted)));
  }
}

TEST_CASE("autotune takes the workers that the jobs' speed needs") {
  const auto linear = [](double w) { return 1 / (100 * w); };
  CHECK(searched("autotune", 16, linear, 2, 450) == std::vector<std::uint32_t>{5, 5});
  CHECK(searched("autotune", 4, linear, 2, 450).back() == 4);
  CHECK(scaling("autotune")->workers(node_of(7)) == 7);  // nothing is measured yet
}

}  // namespace batchflow::test::scaling_test
