// What a step does at most, where one event makes work for many: counted, not timed.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "policies/registry.h"
#include "tools/bench/instant_backend.h"

namespace batchflow::test::long_steps_test {

namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr NodeId kNode{1};
constexpr Place kMemory{kNode, Tier::dram, 0};

struct World {
  World(std::uint64_t samples, std::uint32_t block_samples, Bytes dram,
        const char* allocation = "encoded-first")
      : engine(config(block_samples, allocation), policies::policy_list(), fill(samples)),
        backend(engine, kDataset, 7, kPipeline, 9) {
    backend.node(kNode, 4, dram);
  }
  static engine::EngineConfig config(std::uint32_t block_samples, const char* allocation) {
    engine::EngineConfig config;
    config.policies.allocation = allocation;
    config.block_bytes = Bytes{block_samples} * 1000;
    return config;
  }
  const engine::Catalogues& fill(std::uint64_t samples) {
    catalogues.add(kDataset, engine::Catalogue::uniform("long steps", 7, samples, 1000));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.has_random = true;
    pipeline.prepared_bytes = 1000;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }
  // The most that `count` grew in one of the next steps.
  template <class Count>
  std::uint64_t most_a_step(int steps, Count count) {
    std::uint64_t most = 0;
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t before = count();
      backend.step();
      engine.check_consistency();
      most = std::max(most, count() - before);
    }
    return most;
  }

  engine::Catalogues catalogues;
  engine::Engine engine;
  bench::InstantBackend backend;
};

}  // namespace

TEST_CASE("a window that no job needs any more is dropped some blocks a step") {
  constexpr std::uint64_t kWindow = 8000;
  World world(4 * kWindow, 1, 2 * kWindow * 1000, "equal");
  world.backend.join({JobId(1), Order::relaxed, 1}, kNode);
  while (world.backend.deliveries() < 2 * kWindow) world.backend.step();
  const std::uint64_t before = world.backend.drops();
  world.backend.add(engine::JobLeft{JobId(1)});
  // 1,024 of a stream that is gone, and 512 that leave a share that shrinks.
  CHECK(world.most_a_step(100, [&] { return world.backend.drops(); }) <= 1536);
  CHECK(world.backend.drops() - before > kWindow * 3 / 4);
  // All of it is free: a job that needs nearly all of the memory comes in.
  world.backend.join({JobId(2), Order::relaxed, kWindow / 4}, kNode);
  CHECK(world.backend.refusals() == 0);
}

TEST_CASE("with less memory jobs are refused some a step, the youngest first") {
  constexpr std::uint32_t kJobs = 200;
  World world(1000, 8, kJobs * Bytes{100'000});
  const std::vector<NodeId> ranks(1, kNode);
  for (std::uint32_t i = 0; i < kJobs; ++i) {  // none asks for a batch, so none holds any
    world.backend.add_join({JobId(i), Order::relaxed, 8, 1, 2, i % 10 + 1}, ranks);
    world.backend.step();
  }
  CHECK(world.backend.refusals() == 0);
  world.backend.add(engine::CapacityChanged{kMemory, 1'000'000});
  CHECK(world.most_a_step(30, [&] { return world.backend.refusals(); }) == 8);
  // 125 slots of 8,000 bytes: two a job, and one more for each of the ten streams.
  CHECK(world.backend.refusals() == kJobs - 57);
}

TEST_CASE("orders of many seeds are not all made in one step") {
  constexpr std::uint32_t kSeeds = 60;
  World world(65'536, 16, Bytes{1} << 30);
  const std::vector<NodeId> ranks(1, kNode);
  for (std::uint32_t i = 0; i < kSeeds; ++i) {
    world.backend.add_join({JobId(i), Order::relaxed, 16, 1, 2, i + 1}, ranks);
  }
  world.backend.step();
  for (std::uint32_t i = 0; i < kSeeds; ++i) world.backend.ask({JobId(i)});
  // Each of the first blocks needs a table of 65,536 places, after which nothing else is begun; of
  // others there would be 32 a step.
  CHECK(world.most_a_step(30, [&] { return world.engine.counters().reads; }) <= 8);
  for (int i = 0; i < 300; ++i) world.backend.step();
  CHECK(world.backend.deliveries() > 2 * kSeeds);
}

TEST_CASE("a weighted batch of very many draws is listed in slices") {
  constexpr std::uint32_t kBatch = 20'000;
  World world(100'000, 512, Bytes{1} << 30);
  world.backend.join({JobId(1), Order::weighted, kBatch, 1, 1}, kNode);
  while (world.backend.deliveries() == 0) REQUIRE(world.backend.step());
  // 1,024 draws a step: the batch after it takes 20 steps, though all is there at once.
  const std::uint64_t steps = world.backend.steps();
  while (world.backend.deliveries() == 1) REQUIRE(world.backend.step());
  CHECK(world.backend.steps() - steps >= kBatch / 1024);
  CHECK(world.backend.last_drawn() == kBatch);
}

TEST_CASE("a step is handed 512 events, of which a join counts as eight") {
  std::vector<engine::Event> events;
  CHECK(engine::events_of_one_step(events) == 0);
  events.assign(2000, engine::BatchWanted{JobId(1), 0, 1});
  CHECK(engine::events_of_one_step(events) == 512);
  CHECK(engine::events_of_one_step(std::span(events).first(300)) == 300);
  events.assign(300, engine::JobJoined{});
  CHECK(engine::events_of_one_step(events) == 64);
  events.insert(events.begin(), 505, engine::BatchWanted{JobId(1), 0, 1});
  CHECK(engine::events_of_one_step(events) == 505);  // one join more would be 513
}

TEST_CASE("nodes that come and go leave nothing behind") {
  World world(1000, 8, 10'000'000);
  world.backend.join({JobId(1), Order::relaxed, 8}, kNode);
  for (std::uint32_t i = 0; i < 300; ++i) {
    const NodeId node(100 + i);
    world.backend.add(engine::NodeJoined{node, 1});
    world.backend.add(engine::CapacityChanged{{node, Tier::dram, 0}, 1'000'000});
    world.backend.add(engine::WorkerJoined{WorkerId(100 + i), node});
    for (int step = 0; step < 3; ++step) world.backend.step();
    world.backend.add(engine::NodeLost{node});
    world.backend.step();
    world.engine.check_consistency();
  }
  CHECK(world.engine.counters().node_slots <= 3);
  CHECK(world.engine.counters().worker_slots <= 6);
  CHECK(world.engine.counters().protocol_errors == 0);
  const std::uint64_t before = world.backend.deliveries();
  for (int i = 0; i < 100; ++i) world.backend.step();
  CHECK(world.backend.deliveries() > before);
}

}  // namespace batchflow::test::long_steps_test
