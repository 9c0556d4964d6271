// What survives the engine: positions and promises, those of other sizes, and those that no job can
// be at.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/log/promise_log.h"
#include "tests/driver/driver.h"
#include "tests/driver/obedient.h"

namespace batchflow::test::recovery_test {

namespace {

const std::vector<NodeId> kOneRank = {Obedient::kNode};
const std::vector<NodeId> kThreeRanks = {Obedient::kNode, Obedient::kNode, Obedient::kNode};

// A job of two ranks that loses one after a while and goes on with three, as its log has it.
log::Promises resized_and_lost(Order order) {
  const std::vector<NodeId> two = {Obedient::kNode, Obedient::kNode};
  Obedient world;
  world.send(Obedient::job(5, order, two));
  world.run(40);
  world.send(engine::RankLost{JobId(5), 1});
  world.step();
  world.send(engine::JobResized{JobId(5), 2, kThreeRanks});
  world.run(40);
  log::PromiseLog log(1 << 20);
  for (const engine::Promise& promise : world.promises()) log.add(promise);
  return log::recover_promises(log.pending(), "promises").promises;
}

}  // namespace

TEST_CASE("a job is recovered at the size it had last, with the pipeline it had") {
  for (const Order order : {Order::strict, Order::relaxed, Order::weighted}) {
    const log::Promises promises = resized_and_lost(order);
    REQUIRE(promises.jobs().size() == 1);
    const engine::JobJoined again = promises.jobs().at(5).rejoin();
    CHECK(again.ranks.size() == 3);
    CHECK(again.batch_samples == 2);
    CHECK((again.position->consumed() > 0 || again.position->epoch() > 0));

    Obedient same;
    same.send(again);
    same.run(100);
    CHECK(same.refused.empty());
    CHECK(same.delivered[5] > 0);
    CHECK(same.engine().counters().protocol_errors == 0);

    Obedient other(10);
    other.send(again);
    other.run(100);
    REQUIRE(other.refused.count(5) == 1);
    CHECK(other.refused.at(5).why == engine::Refusal::unknown_pipeline);
    CHECK(other.refused.at(5).needed == 9);
    CHECK(other.refused.at(5).available == 10);
    CHECK(other.delivered[5] == 0);
  }
}

// Torn between the two records, a log says that all of an epoch is consumed and not that it ended.
TEST_CASE("an epoch that is consumed and was never called finished is over") {
  for (const Order order : {Order::strict, Order::sequential, Order::relaxed, Order::weighted}) {
    Obedient first;
    first.send(Obedient::job(5, order, kOneRank));
    first.run(400);
    log::PromiseLog log(1 << 20);
    for (const engine::Promise& promise : first.promises()) {
      if (promise.kind == engine::Promise::Kind::epoch_finished) break;
      log.add(promise);
    }
    const engine::JobJoined again = log.promises().jobs().at(5).rejoin();
    REQUIRE(again.position->consumed() == Obedient::kSamples);
    Obedient second;
    second.send(again);
    second.run(400);
    CHECK(second.refused.empty());
    CHECK(second.delivered[5] > 32);  // two epochs and more
    CHECK(second.promises().at(1).kind == engine::Promise::Kind::epoch_finished);
  }
}

TEST_CASE("a service with another block size has room for the blocks of positions it is told of") {
  for (const Order order : {Order::strict, Order::relaxed}) {
    for (const Bytes restarted : {128, 256, 1024, 2048}) {
      Scenario scenario = small_scenario();
      scenario.config.block_bytes = 1024;       // blocks of 16
      scenario.nodes[0].dram = 6 * 1024 + 100;  // and a sample that is read
      JobPlan job;
      job.order = order;
      job.ranks = {NodeId(1), NodeId(1)};
      job.batch_samples = 2;
      job.epochs = 3;
      scenario.jobs = {job, job};
      Fault fault{};
      fault.kind = Fault::Kind::coordinator_lost;
      fault.bytes = restarted;
      for (fault.after_steps = 1; fault.after_steps <= 16; ++fault.after_steps) {
        scenario.faults = {fault};
        CAPTURE(fault.after_steps);
        const Outcomes out = Driver(scenario, policies::policy_list()).run();
        CHECK(out.jobs_done == 2);
        CHECK(out.jobs_without_room == 0);
      }
    }
  }
}

namespace {

// Anything that passes for a position of this dataset and job.
order::Position any_position(Random& random, Order order, std::uint64_t seed) {
  const auto small = [&](std::uint64_t most) { return random.below(most + 1); };
  for (;;) {
    order::Position::Fields fields;
    fields.order = order;
    fields.dataset_version = 7;
    fields.samples = Obedient::kSamples;
    fields.seed = seed;
    constexpr std::uint32_t kEpochs[] = {0, 1, 7, 1u << 31, (1u << 31) + 1, UINT32_MAX};
    fields.epoch = kEpochs[small(5)];
    fields.consumed = small(Obedient::kSamples);
    if (order == Order::weighted) {
      fields.weights =
          small(1) == 0 ? 77 : order::Weights(64, order::weight_of_score(1)).frozen().digest();
      fields.draws = small(1) == 0 ? 64 : 1 + small(200);
    }
    if (order != Order::weighted && small(2) == 0) {
      fields.buffer = small(1) == 0 ? 0 : random.draw();
      fields.rehearsed = small(3) == 0 ? order::kSamplesMost - small(20) : small(1000);
    }
    if (order == Order::relaxed && small(3) == 0) {
      fields.chosen = true;
      const std::uint64_t some = fields.consumed == 0 ? 0 : small(20);
      for (std::uint64_t index = 0; index < some; ++index) {
        if (small(1) == 0) fields.left_out.push_back(index);
      }
    } else if (order == Order::relaxed && small(9) != 0) {
      order::LanePosition& lanes = fields.lanes;
      constexpr std::uint64_t kGenerations[] = {0, 3, order::LanePosition::kGenerationMost / 2,
                                                order::LanePosition::kGenerationMost - 1,
                                                order::LanePosition::kGenerationMost};
      lanes.generation = kGenerations[small(4)];
      lanes.sizes = {Obedient::kSamples, static_cast<std::uint32_t>(1 + small(70)),
                     static_cast<std::uint32_t>(1 + small(9))};
      if (small(20) == 0) lanes.sizes.block_samples = 1u << (12 + small(19));
      const std::uint32_t count = lanes.sizes.lanes();
      lanes.had = Bitmap(count);
      fields.consumed = 0;
      for (std::uint32_t lane = 0; lane < count; ++lane) {
        lanes.passes.push_back(static_cast<std::uint8_t>(small(2) == 0 ? small(254) : small(3)));
        if (lanes.passes[lane] == 0) continue;
        const std::uint32_t blocks = lanes.sizes.blocks_of(lane);
        if (small(2) == 0) {
          lanes.had.set(lane);
          for (std::uint32_t b = 0; b < blocks; ++b) {
            fields.consumed += lanes.sizes.samples_of(lane, b);
          }
          continue;
        }
        if (small(1) == 0 || lanes.open.size() == 64) continue;
        order::LanePosition::OpenLane open{lane, lanes.passes[lane] - 1u, Bitmap(blocks)};
        bool begun = false;
        for (std::uint32_t b = 0; b < blocks; ++b) {
          const std::uint32_t samples = lanes.sizes.samples_of(lane, b);
          const std::uint64_t what = small(2);
          if (what == 0 && b + 1 < blocks) {
            open.had.set(b);
            fields.consumed += samples;
            begun = true;
          } else if (what == 1 && samples > 1) {
            const auto used = static_cast<std::uint32_t>(1 + small(samples - 2));
            fields.part_blocks.push_back({lane, b, used});
            fields.consumed += used;
            begun = true;
          }
        }
        if (begun) lanes.open.push_back(open);
      }
    }
    std::string problem;
    if (auto position = order::Position::from(fields, problem)) return *position;
  }
}

const SampleId kExemplars[] = {SampleId(5), SampleId(63), SampleId(0)};

void from_anywhere(std::uint64_t first, std::uint64_t count) {
  std::uint64_t served = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    Random random(hash(31, seed));
    constexpr Order kOrders[] = {Order::strict, Order::sequential, Order::relaxed, Order::relaxed,
                                 Order::weighted};
    Obedient world;
    std::vector<order::Position> positions;
    for (std::uint32_t job = 1; job <= 3; ++job) {
      const Order order = kOrders[random.below(5)];
      const bool fixed = order == Order::strict || order == Order::sequential;
      positions.push_back(any_position(random, order, fixed ? 0 : hash(2, 0)));
    }
    for (std::uint32_t job = 1; job <= 3; ++job) {
      const order::Position& position = positions[job - 1];
      engine::JobJoined join = Obedient::job(job, position.order(), kThreeRanks);
      join.batch_samples = 1 + static_cast<std::uint32_t>(random.below(12));
      join.drop_last = random.below(2) == 0;
      join.draws = position.fields().draws;
      join.node_local =
          position.order() == Order::relaxed && random.below(2) == 0 && !position.is_chosen();
      if (position.order() != Order::weighted) {
        join.rehearsed = static_cast<std::uint32_t>(random.below(join.batch_samples));
      }
      join.position = &position;
      world.send(join);
      if (random.below(3) != 0) {
        world.send(engine::ExemplarsReported{join.job, false, 0, kExemplars, random.below(5) == 0});
      }
      world.run(static_cast<int>(random.below(30)));
    }
    world.send(
        engine::JobResized{JobId(1 + static_cast<std::uint32_t>(random.below(3))), 3, kOneRank});
    world.run(150);
    world.send(
        engine::JobResized{JobId(1 + static_cast<std::uint32_t>(random.below(3))), 5, kThreeRanks});
    world.run(100);
    for (const auto& [job, batches] : world.delivered) served += batches;
    for (const auto& [job, refusal] : world.refused) {
      const bool expected = refusal.why == engine::Refusal::bad_position ||
                            refusal.why == engine::Refusal::bad_request;
      if (!expected) FAIL_CHECK(fmt::format("refused for {}", static_cast<int>(refusal.why)));
    }
  }
  CHECK(served > count);
}

}  // namespace

TEST_CASE("no position that can be told aborts the engine") {
  from_anywhere(1, 300);
}

TEST_SUITE("long") {
  TEST_CASE("no position of very many aborts the engine") {
    from_anywhere(1000, 20'000);
  }
}

}  // namespace batchflow::test::recovery_test
