#include "core/journal.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/config_error.h"
#include "core/engine_config_text.h"
#include "tests/core/random_events.h"

using namespace batchflow;
using namespace std::chrono_literals;
using test::RandomEvents;

namespace {

const JournalHeader kHeader{42, "credits=7\n", "0.1.0"};
const Catalogues kNone;

// Stands for an engine: its commands depend on all events so far. From `odd_step` on it decides
// otherwise.
class Machine {
 public:
  explicit Machine(std::uint64_t odd_step = UINT64_MAX) : odd_step_(odd_step) {}

  std::span<const Command> step(Instant now, std::span<const Event> events) {
    commands_.clear();
    state_ = hash(state_, now.time_since_epoch().count());
    for (const Event& event : events) {
      state_ = hash(state_, event.index());
      commands_.push_back(SetWorkers{NodeId(1), static_cast<std::uint32_t>(state_)});
      samples_ = {SampleId(state_), SampleId(state_ + (steps_ >= odd_step_))};
      Read read;
      read.samples = samples_;
      commands_.push_back(read);
    }
    ++steps_;
    return commands_;
  }
  StepFunction function() {
    return [this](Instant now, std::span<const Event> events) { return step(now, events); };
  }

 private:
  std::uint64_t odd_step_;
  std::uint64_t steps_ = 0;
  std::uint64_t state_ = 0;
  std::vector<SampleId> samples_;
  std::vector<Command> commands_;
};

struct Recorded {
  std::vector<std::byte> bytes;
  std::uint64_t digest;
  std::vector<std::size_t> sizes;  // after each step
};

Recorded record(std::uint64_t steps, Bytes bytes_max = FrameWriter::kNoBound, bool close = true) {
  Recorded recorded;
  RandomEvents random(9);
  Machine machine;
  Journal journal(kHeader, kNone, bytes_max);
  const auto take = [&] {
    recorded.bytes.insert(recorded.bytes.end(), journal.pending().begin(), journal.pending().end());
    journal.clear_pending();
  };
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto events = random.events(1 + random.random().below(3));
    const Instant now = Instant(Duration(1ms) * i);
    journal.record(now, events);
    take();
    recorded.sizes.push_back(recorded.bytes.size());
    journal.ordered(machine.step(now, events));
  }
  if (close) journal.close();
  take();
  recorded.digest = journal.digest();
  CHECK(journal.steps() == steps);
  return recorded;
}

}  // namespace

TEST_CASE("a replay gives the same digest; the header comes back") {
  const Recorded recorded = record(200);
  JournalReader reader(recorded.bytes, "j");
  CHECK(reader.header() == kHeader);
  Machine machine;
  const ReplayResult result = replay(reader, machine.function());
  CHECK(result.same());
  CHECK(result.steps == 200);
  CHECK(result.digest == recorded.digest);
  CHECK(reader.end() == LogEnd::closed);
  CHECK(reader.final_digest() == recorded.digest);
}

TEST_CASE("the first step that differs is named, the last one too") {
  const Recorded recorded = record(200);
  for (const std::uint64_t odd : {0, 1, 77, 199}) {
    CAPTURE(odd);
    JournalReader reader(recorded.bytes, "j");
    Machine machine(odd);
    const ReplayResult result = replay(reader, machine.function());
    REQUIRE(result.first_difference);
    CHECK(*result.first_difference == odd);
    CHECK(result.report.find("step " + std::to_string(odd)) == 0);
    CHECK(result.report.find("SetWorkers node=1 workers=") != std::string::npos);
  }
}

TEST_CASE("two engines side by side: both commands of the first difference are shown") {
  const Recorded recorded = record(50);
  JournalReader reader(recorded.bytes, "j");
  Machine one, other(20);
  const ReplayResult result = compare_replays(reader, one.function(), other.function());
  REQUIRE(result.first_difference);
  CHECK(*result.first_difference == 20);
  CHECK(result.report.find("command 1:\n  Read ") != std::string::npos);
  JournalReader again(recorded.bytes, "j");
  Machine third, fourth;
  CHECK(compare_replays(again, third.function(), fourth.function()).same());
}

TEST_CASE("a journal without its end replays as far as it goes, cut at every byte") {
  const Recorded recorded = record(12, FrameWriter::kNoBound, false);
  for (std::size_t size = 0; size <= recorded.bytes.size(); ++size) {
    JournalReader reader(std::span(recorded.bytes).first(size), "j");
    Machine machine;
    const ReplayResult result = replay(reader, machine.function());
    std::size_t whole = 0;
    while (whole < recorded.sizes.size() && recorded.sizes[whole] <= size) ++whole;
    REQUIRE(result.same());
    REQUIRE(result.steps == whole);
    REQUIRE(reader.end() == LogEnd::none);
    if (whole > 0) REQUIRE(reader.bytes_cut() == size - recorded.sizes[whole - 1]);
  }
}

TEST_CASE("at its bound the journal ends, the run goes on, and what is there replays") {
  const Recorded recorded = record(200, 2000);
  CHECK(recorded.bytes.size() <= 2000);
  CHECK(record(200).digest == recorded.digest);  // of the whole run
  JournalReader reader(recorded.bytes, "j");
  Machine machine;
  const ReplayResult result = replay(reader, machine.function());
  CHECK(result.same());
  CHECK(result.steps > 10);
  CHECK(result.steps < 200);
  CHECK(reader.end() == LogEnd::at_bound);
  CHECK(reader.final_digest() == result.digest);
}

TEST_CASE("a journal of another version is refused") {
  Recorded recorded = record(3);
  recorded.bytes[8] = std::byte{99};
  CHECK_THROWS_WITH_AS(JournalReader(recorded.bytes, "j"), doctest::Contains("version 99"),
                       ConfigError);
}

TEST_CASE("what events refer to comes back, once, sizes and all") {
  Catalogues catalogues;
  catalogues.add(DatasetId(3), Catalogue::uniform("even", 33, 1'000'000'000, 4096));
  std::string problem;
  Catalogue::Parts parts;
  parts.version = 44;
  parts.samples = 3;
  parts.bytes = {7, Bytes{1} << 40, 0};
  parts.classes = 1;
  parts.labels = {0, 0, 0};
  catalogues.add(DatasetId(4), *Catalogue::from(parts, problem));
  PipelineInfo pipeline;
  pipeline.hash = 55;
  pipeline.prefix_hash = 5;
  pipeline.has_random = true;
  pipeline.decoded_bytes = 600'000;
  pipeline.prepared_bytes = 150'528;
  pipeline.decode_cost = 2ms;
  pipeline.augment_cost = 1ms;
  catalogues.add(PipelineId(9), pipeline);

  Journal journal(kHeader, catalogues, FrameWriter::kNoBound);
  const std::vector<Event> first = {CatalogueKnown{DatasetId(3), 33},
                                    CatalogueKnown{DatasetId(8), 1}};
  const std::vector<Event> second = {CatalogueKnown{DatasetId(3), 33},
                                     CatalogueKnown{DatasetId(4), 44},
                                     PipelineKnown{PipelineId(9), 55}};
  journal.record(Instant(1ms), first);
  const std::size_t once = journal.pending().size();
  CHECK(once < 200);  // not a size for each of 10^9 samples
  journal.record(Instant(2ms), second);
  journal.close();
  JournalReader reader(journal.pending(), "j");
  REQUIRE(reader.next());
  const Catalogue* even = reader.catalogues().find(DatasetId(3), 33);
  REQUIRE(even);
  CHECK(even->samples() == 1'000'000'000);
  CHECK(even->bytes(SampleId(999)) == 4096);
  CHECK(reader.catalogues().find(DatasetId(4), 44) == nullptr);  // not yet
  REQUIRE(reader.next());
  const Catalogue* uneven = reader.catalogues().find(DatasetId(4), 44);
  REQUIRE(uneven);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(uneven->bytes(SampleId(i)) == parts.bytes[i]);
  CHECK(uneven->classes() == 0);
  const PipelineInfo* back = reader.catalogues().find(PipelineId(9), 55);
  REQUIRE(back);
  CHECK(back->prefix_hash == 5);
  CHECK(back->has_random);
  CHECK(back->decoded_bytes == 600'000);
  CHECK(back->prepared_bytes == 150'528);
  CHECK(back->decode_cost == 2ms);
  CHECK(back->augment_cost == 1ms);
  CHECK_FALSE(reader.next());
  CHECK(reader.end() == LogEnd::closed);
}

TEST_CASE("an engine's configuration as text is the same one, every setting changed") {
  EngineConfig config;
  apply_preset(config, "independent");
  config.policies = {
      "equal", {"sieve", "arc", "lru"}, "ready-first", "bounded-lag:blocks=4", "static:depth=3"};
  config.seed = UINT64_MAX;
  config.credits = 7;
  config.ready_window = 9;
  config.generation_epochs = 11;
  config.block_bytes = 12345;
  config.blocks_least = 9;
  config.item_slot_bytes = 77;
  config.corrupt_ratio_max = Ratio{123'456'789'012};
  config.rank_timeout = Duration(1'234'567'891);
  config.read_attempts = 6;
  config.delivery_attempts = 8;
  config.retry_wait = Duration(10'001);
  config.share_streams = true;
  config.share_nodes = true;
  config.helper_nodes = 3;
  config.workers_per_rank = 2;
  config.workers_held_during_reads = false;
  config.hold_ingredients = false;
  config.blocks_in_flight_per_worker = 5;
  config.look_ahead_most = 0;
  config.late_after_p99 = 13;
  config.journal_bytes_max = 5000;
  config.promise_log_bytes_max = 6000;
  CHECK(engine_config_of(text_of(config), "t") == config);
  CHECK(engine_config_of(text_of(EngineConfig()), "t") == EngineConfig());
  CHECK_THROWS_WITH_AS(engine_config_of("credits=3\ncredit=4\n", "t"),
                       doctest::Contains("t:2: key 'credit'"), ConfigError);
  for (const char* const broken : {"credits", "=", "\n", "credits=", "a.b=1", "seed.x=1"}) {
    CAPTURE(broken);
    CHECK_THROWS_AS(engine_config_of(broken, "t"), ConfigError);
  }
}
