// What a backend or an operator may say that cannot be: it is counted, and costs no job anything.
#include <doctest/doctest.h>

#include <optional>

#include "policies/registry.h"
#include "tests/engine/small_world.h"

namespace batchflow::test::hostile_test {

namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr NodeId kNode{1};

struct Bare {
  explicit Bare(std::uint64_t samples, Bytes stored = 1000, Bytes prepared = 1000,
                Bytes dram = Bytes{1} << 30)
      : engine(engine::EngineConfig(), policies::policy_list(), fill(samples, stored, prepared)) {
    const std::vector<engine::Event> events{
        engine::CatalogueKnown{kDataset, 7}, engine::PipelineKnown{kPipeline, 9},
        engine::NodeJoined{kNode, 4}, engine::CapacityChanged{{kNode, Tier::dram, 0}, dram},
        engine::WorkerJoined{WorkerId(1), kNode}};
    engine.step(now, events);
  }
  const engine::Catalogues& fill(std::uint64_t samples, Bytes stored, Bytes prepared) {
    catalogues.add(kDataset, engine::Catalogue::uniform("hostile", 7, samples, stored));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.prefix_hash = 5;
    pipeline.has_random = true;
    pipeline.decoded_bytes = 1000;
    pipeline.prepared_bytes = prepared;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }
  std::vector<engine::Command> step(const engine::Event& event) {
    now += between;
    const auto commands = engine.step(now, {&event, 1});
    return {commands.begin(), commands.end()};
  }
  std::vector<engine::Command> join(std::uint32_t credits, std::size_t ranks_of_it = 2,
                                    std::uint32_t batch = 5) {
    engine::JobJoined event;
    event.job = JobId(++jobs);
    event.dataset = kDataset;
    event.pipeline = kPipeline;
    event.batch_samples = batch;
    event.credits = credits;
    const std::vector<NodeId> ranks(ranks_of_it, kNode);
    event.ranks = ranks;
    return step(event);
  }
  template <class Wanted>
  static const Wanted* first(const std::vector<engine::Command>& commands) {
    for (const engine::Command& command : commands) {
      if (const auto* found = std::get_if<Wanted>(&command)) return found;
    }
    return nullptr;
  }

  engine::Catalogues catalogues;
  engine::Engine engine;
  Instant now{};
  Duration between = std::chrono::seconds(1);  // of steps
  std::uint32_t jobs = 0;
};

}  // namespace

TEST_CASE("a rank that asks for four billion credits gets as many as there can be") {
  Bare bare(1000);
  const auto commands = bare.join(UINT32_MAX);
  const auto* admit = Bare::first<engine::Admit>(commands);
  REQUIRE(admit);
  CHECK(admit->credits <= engine::kCreditsMost);
}

TEST_CASE("a job without room is told what it needs, and what others leave") {
  constexpr Bytes kRoom = Bytes{1} << 30;
  constexpr Bytes kMany = 1'000'000;
  Bare bare(1000);
  // Alone, it takes a slot a rank, one that is being prepared, and a sample that is read.
  const auto alone = bare.join(1, kMany);
  const auto* refused = Bare::first<engine::Refuse>(alone);
  REQUIRE(refused);
  CHECK(refused->why == engine::Refusal::no_room);
  const Bytes slot = refused->needed / (kMany + 1);
  const Bytes sample = refused->needed - slot * (kMany + 1);
  CHECK(sample == 1000);
  CHECK(refused->available == kRoom);
  // Beside another of its stream, these are there.
  REQUIRE(Bare::first<engine::Admit>(bare.join(3)));
  const auto beside = bare.join(1, kMany);
  refused = Bare::first<engine::Refuse>(beside);
  REQUIRE(refused);
  CHECK(refused->needed == slot * kMany);
  CHECK(refused->available == kRoom - slot * (2 * 3 + 1) - sample);
  // With less memory the youngest job goes, and it too is told what it needs.
  REQUIRE(Bare::first<engine::Admit>(bare.join(2)));
  const auto less = bare.step(
      engine::CapacityChanged{{kNode, Tier::dram, 0}, slot * (2 * 3 + 1 + 2 * 2 - 1) + sample});
  refused = Bare::first<engine::Refuse>(less);
  REQUIRE(refused);
  CHECK(refused->needed == slot * 4);
  CHECK(refused->available == slot * 3);
}

TEST_CASE("a dataset of a trillion samples is served, and not cached sample by sample") {
  Bare bare(1'000'000'000'000);
  CHECK(Bare::first<engine::Admit>(bare.join(2)));
}

TEST_CASE("nodes that cannot be are not taken up") {
  Bare bare(1000);
  CHECK(bare.step(engine::NodeJoined{NodeId::none(), 1}).empty());
  CHECK(bare.step(engine::NodeJoined{NodeId(7), UINT32_MAX}).empty());
  CHECK(bare.engine.counters().protocol_errors == 2);
}

TEST_CASE("a time-out that lasts longer than time is refused") {
  Bare bare(1000);
  bare.step(engine::ConfigurationChanged{"rank_timeout=9223372036s"});
  bare.step(engine::ConfigurationChanged{"rank_timeout=1ns"});
  CHECK(bare.engine.counters().protocol_errors == 2);
  CHECK(Bare::first<engine::Admit>(bare.join(2)));
  bare.step(engine::RankLost{JobId(1), 0});
  CHECK(!Bare::first<engine::Refuse>(bare.step(engine::BatchWanted{JobId(1), 1, 1})));
}

TEST_CASE("a worker that calls samples corrupt that it was not given has failed, no more") {
  Bare bare(1000);
  std::vector<engine::Command> commands = bare.join(2);
  REQUIRE(Bare::first<engine::Admit>(commands));
  std::uint32_t wrong = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<engine::Event> events;
    if (turn == 0) events.push_back(engine::BatchWanted{JobId(1), 0, 1});
    for (const engine::Command& command : commands) {
      CHECK(!std::holds_alternative<engine::Refuse>(command));
      if (const auto* read = std::get_if<engine::Read>(&command))
        events.push_back(engine::ReadDone{read->request, {}, {}});
      if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
        static const SampleId stranger(1u << 30);
        const std::span<const SampleId> failed(&stranger, wrong % 2);
        const bool lies = wrong < 2;
        wrong += lies ? 1 : 0;
        events.push_back(engine::PreparationDone{
            prepare->request, lies ? engine::Outcome::corrupt : engine::Outcome::done, failed});
      }
    }
    bare.now += Duration(100'000'000);
    const auto next = bare.engine.step(bare.now, events);
    commands.assign(next.begin(), next.end());
  }
  CHECK(wrong == 2);
  CHECK(bare.engine.counters().protocol_errors == 2);
  CHECK(bare.engine.counters().corrupt_samples == 0);
  CHECK(bare.engine.counters().batches == 1);
}

TEST_CASE("what is prepared for jobs that have all left is cancelled, and not tried again") {
  Bare bare(1000);
  const auto until_prepared =
      [&](std::vector<engine::Command> commands) -> std::optional<engine::Request> {
    for (int turn = 0; turn < 100; ++turn) {
      if (const auto* prepare = Bare::first<engine::Prepare>(commands)) return prepare->request;
      const auto* read = Bare::first<engine::Read>(commands);
      commands = read ? bare.step(engine::ReadDone{read->request, {}, {}})
                      : bare.step(engine::BatchWanted{JobId(bare.jobs), 0, 1});
    }
    return std::nullopt;
  };
  const auto made = until_prepared(bare.join(2));
  REQUIRE(made);
  const std::vector<engine::Command> commands = bare.step(engine::JobLeft{JobId(1)});
  const auto* cancel = Bare::first<engine::Cancel>(commands);
  REQUIRE(cancel);
  CHECK(cancel->request == *made);
  // Its worker writes to the slot until it has said that it does not.
  CHECK(!Bare::first<engine::Drop>(commands));
  const std::vector<engine::Command> reported =
      bare.step(engine::PreparationDone{*made, engine::Outcome::failed, {}});
  CHECK(Bare::first<engine::Drop>(reported));
  CHECK(!Bare::first<engine::Prepare>(bare.step(engine::TimerFired{})));
  // The worker is free for the next job.
  CHECK(until_prepared(bare.join(2)));
  CHECK(bare.engine.counters().protocol_errors == 0);
  bare.engine.check_consistency();
}

TEST_CASE("a job that comes back after the cancellation gets its block prepared anew") {
  Bare bare(1000);
  std::vector<engine::Command> commands = bare.join(2);
  std::optional<engine::Request> made;
  std::uint32_t prepared = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<engine::Event> events;
    if (turn == 0) events.push_back(engine::BatchWanted{JobId(1), 0, 1});
    if (turn == 60) events.push_back(engine::BatchWanted{JobId(2), 0, 1});
    for (const engine::Command& command : commands) {
      CHECK(!std::holds_alternative<engine::Refuse>(command));
      if (const auto* read = std::get_if<engine::Read>(&command))
        events.push_back(engine::ReadDone{read->request, {}, {}});
      const auto* prepare = std::get_if<engine::Prepare>(&command);
      if (prepare && turn < 50) made = prepare->request;
      if (prepare && turn >= 50) {
        ++prepared;
        events.push_back(engine::PreparationDone{prepare->request, engine::Outcome::done, {}});
      }
    }
    bare.now += Duration(100'000'000);
    if (turn == 50) {
      REQUIRE(made);
      CHECK(Bare::first<engine::Cancel>(bare.step(engine::JobLeft{JobId(1)})));
      commands = bare.join(2);
      events.push_back(engine::PreparationDone{*made, engine::Outcome::failed, {}});
      for (const engine::Command& command : commands) {
        if (const auto* read = std::get_if<engine::Read>(&command))
          events.push_back(engine::ReadDone{read->request, {}, {}});
      }
    }
    const auto next = bare.engine.step(bare.now, events);
    commands.assign(next.begin(), next.end());
  }
  CHECK(prepared > 0);
  CHECK(bare.engine.counters().batches == 1);
  CHECK(bare.engine.counters().protocol_errors == 0);
}

TEST_CASE("a read that fails in part is ordered again for the rest, one that lies as a whole") {
  Bare bare(1000);
  std::vector<engine::Command> commands = bare.join(2);
  const SampleId stranger(1u << 30);
  SampleId some[2];
  std::uint64_t asked = 0;
  std::size_t attempts = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<engine::Event> events;
    if (turn == 0) events.push_back(engine::BatchWanted{JobId(1), 0, 1});
    for (const engine::Command& command : commands) {
      if (const auto* prepare = std::get_if<engine::Prepare>(&command))
        events.push_back(engine::PreparationDone{prepare->request, {}, {}});
      const auto* read = std::get_if<engine::Read>(&command);
      if (!read) continue;
      const std::size_t samples =
          read->samples.empty() ? read->lineage.samples : read->samples.size();
      asked += samples;
      // The first read alone goes wrong.
      if (read->request.attempt != attempts) {
        events.push_back(engine::ReadDone{read->request, {}, {}});
        continue;
      }
      engine::ReadDone done{
          read->request, attempts < 3 ? engine::Outcome::failed : engine::Outcome::done, {}};
      if (attempts == 0) {
        CHECK(samples > 2);
        done.failed = {&stranger, 1};
      } else if (attempts == 1) {
        CHECK(samples > 2);  // as before: what cannot be says nothing
        REQUIRE(read->samples.size() == samples);
        some[0] = read->samples[2];
        some[1] = read->samples[0];
        done.failed = some;
      } else {
        // Of the two that are left none was read, and then both are.
        std::sort(std::begin(some), std::end(some));
        CHECK(std::equal(read->samples.begin(), read->samples.end(), some, some + 2));
      }
      ++attempts;
      events.push_back(done);
    }
    bare.now += Duration(100'000'000);
    const auto next = bare.engine.step(bare.now, events);
    commands.assign(next.begin(), next.end());
  }
  CHECK(attempts == 4);
  CHECK(bare.engine.counters().failed_reads == 3);
  CHECK(bare.engine.counters().protocol_errors == 1);
  CHECK(bare.engine.counters().samples_read == asked);
  CHECK(bare.engine.counters().batches == 1);
}

TEST_CASE("what comes with a join that is refused is no contradiction, and later it is one") {
  Bare bare(1000);
  const NodeId stranger[] = {NodeId(77)};
  engine::JobJoined join;
  join.job = JobId(5);
  join.dataset = kDataset;
  join.pipeline = kPipeline;
  join.batch_samples = 5;
  join.rehearsed = 2;
  join.ranks = stranger;
  const SampleId exemplars[] = {SampleId(1), SampleId(2)};
  const engine::ExemplarsReported report{join.job, true, 0, exemplars, false};
  const std::vector<engine::Event> together{join, report};
  bare.now += Duration(1);
  const auto commands = bare.engine.step(bare.now, together);
  CHECK(Bare::first<engine::Refuse>({commands.begin(), commands.end()}));
  CHECK(bare.engine.counters().protocol_errors == 0);
  CHECK(bare.engine.counters().stale_completions == 1);
  bare.step(report);
  CHECK(bare.engine.counters().protocol_errors == 1);
}

TEST_CASE("samples of more slots than a share counts are served, and not kept") {
  const Bytes slot = engine::EngineConfig().item_slot_bytes;
  for (const Bytes stored : {slot << 32, (slot << 32) - 1, (slot << 32) + 1}) {
    CAPTURE(stored);
    Bare bare(100, stored, 1000, Bytes{1} << 50);
    std::vector<engine::Command> commands = bare.join(2);
    REQUIRE(Bare::first<engine::Admit>(commands));
    const std::vector<engine::Command> more = bare.step(engine::BatchWanted{JobId(1), 0, 1});
    commands.insert(commands.end(), more.begin(), more.end());
    const auto* read = Bare::first<engine::Read>(commands);  // the first blocks are made ahead
    REQUIRE(read);
    CHECK(read->keep.is_none());
  }
}

TEST_CASE("batches too large for a number, or for the memory, are refused with what they need") {
  constexpr Bytes kRoom = Bytes{1} << 30;
  struct Case {
    Bytes sample;
    std::uint32_t batch;
  };
  // 800 GiB; just beyond what 64 bits hold, where the rest would fit; and far beyond.
  for (const Case& one : {Case{Bytes{200} << 20, 4096}, Case{Bytes{1} << 40, 1u << 24},
                          Case{(Bytes{1} << 40) + 1, 1u << 24}, Case{UINT64_MAX, UINT32_MAX}}) {
    CAPTURE(one.sample);
    Bare bare(1u << 26, 1000, one.sample);
    const auto commands = bare.join(1, 1, one.batch);
    const auto* refused = Bare::first<engine::Refuse>(commands);
    REQUIRE(refused);
    CHECK(refused->why == engine::Refusal::no_room);
    const auto bytes = static_cast<unsigned __int128>(one.sample) * one.batch;
    CHECK(refused->needed >= std::min<unsigned __int128>(bytes, UINT64_MAX));
    CHECK(refused->available <= kRoom);
  }
}

TEST_CASE("a rank that is lost near the end of time is waited for until then") {
  Bare bare(1000);
  REQUIRE(Bare::first<engine::Admit>(bare.join(2)));
  const Duration left = engine::EngineConfig().rank_timeout / 2;
  bare.now = kNever - left;
  bare.between = left / 21;
  CHECK(!Bare::first<engine::Refuse>(bare.step(engine::RankLost{JobId(1), 0})));
  for (int i = 0; i < 20; ++i)
    CHECK(!Bare::first<engine::Refuse>(bare.step(engine::TimerFired{TimerId(1)})));
}

}  // namespace batchflow::test::hostile_test
