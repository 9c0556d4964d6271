// What a block costs in lanes: the same for one member and for 256, for 10^5 samples and for 10^9,
// and whatever members do that have nothing to do with it. Ratios are bounded loosely, as the
// machine is shared; a cost that grew with members, lanes or samples would exceed them many times.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "core/base/random.h"
#include "tests/core/order_simulation.h"

namespace batchflow::test::lanes_cost_test {

namespace {

struct Size {
  std::uint64_t samples;
  std::uint32_t block_samples;
  std::uint32_t lane_blocks;
};
constexpr Size kImageNet{1'281'167, 256, 40};
constexpr Size kSmall{100'000, 16, 49};
constexpr Size kHuge{1'000'000'000, 256, 4096};

OrderSimulation::Options options_of(const Size& size) {
  OrderSimulation::Options options;
  options.lanes.sizes = {size.samples, size.block_samples, size.lane_blocks};
  options.window_blocks = 4 * size.lane_blocks;
  return options;
}

// Of one take with all that leads to it, the best of three.
double nanoseconds_per_take(OrderSimulation& simulation, int takes) {
  double best = 1e12;
  for (int i = 0; i < takes / 2; ++i) simulation.step();
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < takes; ++i) simulation.step();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / takes);
  }
  return best;
}

double cost(const Size& size, int members, bool in_step) {
  OrderSimulation simulation(options_of(size));
  Random random(5);
  for (int i = 0; i < members; ++i)
    simulation.join(in_step ? 0 : random.below(1000) * OrderSimulation::kTicksPerBlock,
                    in_step ? 1 : .2 + random.unit());
  return nanoseconds_per_take(simulation, 100'000);
}

// One job that runs beside `others` that are in generations of their own and do nothing.
double cost_beside(const Size& size, std::uint32_t others) {
  OrderSimulation simulation(options_of(size));
  for (std::uint32_t i = 0; i < others; ++i) simulation.join_idle(i);
  simulation.join(0, 1);
  return nanoseconds_per_take(simulation, 100'000);
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("the cost of a block does not grow with members") {
    const double one = cost(kImageNet, 1, true);
    for (const bool in_step : {true, false}) {
      for (const int members : {16, 256}) {
        const double many = cost(kImageNet, members, in_step);
        MESSAGE(members << std::string(in_step ? " in step: " : " at any pace: ") << many
                        << " ns, one: " << one << " ns");
        CHECK(many < 5 * one);
      }
    }
  }

  TEST_CASE("the cost of a block does not grow with samples") {
    const double small = cost(kSmall, 16, true);
    const double huge = cost(kHuge, 16, true);
    MESSAGE("10^5 samples: " << small << " ns, 10^9: " << huge << " ns");
    CHECK(huge < 5 * small);
  }

  TEST_CASE("the cost of a block does not grow with members elsewhere") {
    const double alone = cost_beside(kImageNet, 0);
    const double beside = cost_beside(kImageNet, 255);
    MESSAGE("alone: " << alone << " ns, beside 255: " << beside << " ns");
    CHECK(beside < 3 * alone);
  }
}

}  // namespace batchflow::test::lanes_cost_test
