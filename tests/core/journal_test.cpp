#include "core/log/journal.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "tests/core/random_events.h"

namespace batchflow::test::journal_test {
using namespace std::chrono_literals;
using test::RandomEvents;

namespace {

const log::JournalHeader kHeader{42, "credits=7\n", "0.1.0"};
const engine::Catalogues kNone;

// Stands for an engine: its commands depend on all events so far. From `odd_step` on it decides
// otherwise.
class Machine {
 public:
  explicit Machine(std::uint64_t odd_step = UINT64_MAX) : odd_step_(odd_step) {}

  std::span<const engine::Command> step(Instant now, std::span<const engine::Event> events) {
    commands_.clear();
    state_ = hash(state_, now.time_since_epoch().count());
    for (const engine::Event& event : events) {
      state_ = hash(state_, event.index());
      commands_.push_back(engine::SetWorkers{NodeId(1), static_cast<std::uint32_t>(state_)});
      samples_ = {SampleId(state_), SampleId(state_ + (steps_ >= odd_step_))};
      engine::Read read;
      read.samples = samples_;
      commands_.push_back(read);
    }
    ++steps_;
    return commands_;
  }
  log::StepFunction function() {
    return
        [this](const log::JournalReader::EngineStep& next) { return step(next.now, next.events); };
  }

 private:
  std::uint64_t odd_step_;
  std::uint64_t steps_ = 0;
  std::uint64_t state_ = 0;
  std::vector<SampleId> samples_;
  std::vector<engine::Command> commands_;
};

struct Recorded {
  std::vector<std::byte> bytes;
  std::uint64_t digest;
  std::vector<std::size_t> sizes;  // after each step
};

Recorded record(std::uint64_t steps, Bytes bytes_max = log::FrameWriter::kNoBound,
                bool close = true) {
  Recorded recorded;
  RandomEvents random(9);
  Machine machine;
  log::Journal journal(kHeader, kNone, bytes_max);
  const auto take = [&] {
    recorded.bytes.insert(recorded.bytes.end(), journal.pending().begin(), journal.pending().end());
    journal.clear_pending();
  };
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto events = random.events(1 + random.random().below(3));
    const Instant now = Instant(Duration(1ms) * i);
    journal.record_events(now, events);
    take();
    recorded.sizes.push_back(recorded.bytes.size());
    journal.record_commands(machine.step(now, events));
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
  log::JournalReader reader(recorded.bytes, "j");
  CHECK(reader.header() == kHeader);
  Machine machine;
  const log::ReplayResult result = log::replay(reader, machine.function());
  CHECK(result.same());
  CHECK(result.steps == 200);
  CHECK(result.digest == recorded.digest);
  CHECK(reader.end() == log::LogEnd::closed);
  CHECK(reader.final_digest() == recorded.digest);
}

TEST_CASE("the first step that differs is named, the last one too") {
  const Recorded recorded = record(200);
  for (const std::uint64_t odd : {0, 1, 77, 199}) {
    CAPTURE(odd);
    log::JournalReader reader(recorded.bytes, "j");
    Machine machine(odd);
    const log::ReplayResult result = log::replay(reader, machine.function());
    REQUIRE(result.first_difference);
    CHECK(*result.first_difference == odd);
    CHECK(result.report.find("step " + std::to_string(odd)) == 0);
    CHECK(result.report.find("SetWorkers node=1 workers=") != std::string::npos);
  }
}

TEST_CASE("a journal without its end replays as far as it goes, cut at every byte") {
  const Recorded recorded = record(12, log::FrameWriter::kNoBound, false);
  for (std::size_t size = 0; size <= recorded.bytes.size(); ++size) {
    log::JournalReader reader(std::span(recorded.bytes).first(size), "j");
    Machine machine;
    const log::ReplayResult result = log::replay(reader, machine.function());
    std::size_t whole = 0;
    while (whole < recorded.sizes.size() && recorded.sizes[whole] <= size) ++whole;
    REQUIRE(result.same());
    REQUIRE(result.steps == whole);
    REQUIRE(reader.end() == log::LogEnd::none);
    if (whole > 0) REQUIRE(reader.bytes_cut() == size - recorded.sizes[whole - 1]);
  }
}

TEST_CASE("at its bound the journal ends, the run goes on, and what is there replays") {
  const Recorded recorded = record(200, 2000);
  CHECK(recorded.bytes.size() <= 2000);
  CHECK(record(200).digest == recorded.digest);  // of the whole run
  log::JournalReader reader(recorded.bytes, "j");
  Machine machine;
  const log::ReplayResult result = log::replay(reader, machine.function());
  CHECK(result.same());
  CHECK(result.steps > 10);
  CHECK(result.steps < 200);
  CHECK(reader.end() == log::LogEnd::at_bound);
  CHECK(reader.final_digest() == result.digest);
}

TEST_CASE("a journal of another version is refused") {
  Recorded recorded = record(3);
  recorded.bytes[8] = std::byte{99};
  CHECK_THROWS_WITH_AS(log::JournalReader(recorded.bytes, "j"), doctest::Contains("version 99"),
                       ConfigError);
}

TEST_CASE("what events refer to comes back, once, sizes and all") {
  engine::Catalogues catalogues;
  catalogues.add(DatasetId(3), engine::Catalogue::uniform("even", 33, 1'000'000'000, 4096));
  std::string problem;
  engine::Catalogue::Parts parts;
  parts.version = 44;
  parts.samples = 3;
  parts.bytes = {7, Bytes{1} << 40, 0};
  parts.classes = 1;
  parts.labels = {0, 0, 0};
  catalogues.add(DatasetId(4), *engine::Catalogue::from(parts, problem));
  engine::PipelineInfo pipeline;
  pipeline.hash = 55;
  pipeline.prefix_hash = 5;
  pipeline.has_random = true;
  pipeline.decoded_bytes = 600'000;
  pipeline.prepared_bytes = 150'528;
  pipeline.decode_cost = 2ms;
  pipeline.augment_cost = 1ms;
  catalogues.add(PipelineId(9), pipeline);

  log::Journal journal(kHeader, catalogues, log::FrameWriter::kNoBound);
  const std::vector<engine::Event> first = {engine::CatalogueKnown{DatasetId(3), 33},
                                            engine::CatalogueKnown{DatasetId(8), 1}};
  const std::vector<engine::Event> second = {engine::CatalogueKnown{DatasetId(3), 33},
                                             engine::CatalogueKnown{DatasetId(4), 44},
                                             engine::PipelineKnown{PipelineId(9), 55}};
  journal.record_events(Instant(1ms), first);
  const std::size_t once = journal.pending().size();
  CHECK(once < 200);  // not a size for each of 10^9 samples
  journal.record_events(Instant(2ms), second);
  journal.close();
  log::JournalReader reader(journal.pending(), "j");
  REQUIRE(reader.next());
  const engine::Catalogue* even = reader.catalogues().find(DatasetId(3), 33);
  REQUIRE(even);
  CHECK(even->samples() == 1'000'000'000);
  CHECK(even->bytes(SampleId(999)) == 4096);
  CHECK(reader.catalogues().find(DatasetId(4), 44) == nullptr);  // not yet
  REQUIRE(reader.next());
  const engine::Catalogue* uneven = reader.catalogues().find(DatasetId(4), 44);
  REQUIRE(uneven);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(uneven->bytes(SampleId(i)) == parts.bytes[i]);
  CHECK(uneven->classes() == 0);
  const engine::PipelineInfo* back = reader.catalogues().find(PipelineId(9), 55);
  REQUIRE(back);
  CHECK(back->prefix_hash == 5);
  CHECK(back->has_random);
  CHECK(back->decoded_bytes == 600'000);
  CHECK(back->prepared_bytes == 150'528);
  CHECK(back->decode_cost == 2ms);
  CHECK(back->augment_cost == 1ms);
  CHECK_FALSE(reader.next());
  CHECK(reader.end() == log::LogEnd::closed);
}

}  // namespace batchflow::test::journal_test
