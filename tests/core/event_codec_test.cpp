#include "core/log/event_codec.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/core/random_events.h"

namespace batchflow::test::event_codec_test {
using namespace std::chrono_literals;
using test::RandomEvents;

// Some bytes are others, or missing.
void damage(std::vector<std::byte>& bytes, Random& random) {
  for (std::uint64_t i = random.below(4); i > 0 && !bytes.empty(); --i) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(bytes.size()));
    if (random.below(3) == 0) {
      bytes.erase(bytes.begin() + at);
    } else {
      bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(random.below(256));
    }
  }
}

TEST_CASE("every kind of event comes back as it was, whatever it holds") {
  for (std::size_t kind = 0; kind < std::variant_size_v<engine::Event>; ++kind) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      CAPTURE(kind);
      CAPTURE(seed);
      RandomEvents random(hash(kind, seed));
      const std::vector<engine::Event> events = {random.make<engine::Event>(kind)};
      const Instant now(Duration(static_cast<std::int64_t>(random.random().draw())));
      std::vector<std::byte> bytes;
      log::EventEncoder().step(now, events, bytes);
      log::EventDecoder decoder;
      const auto step = decoder.step(bytes);
      REQUIRE(step);
      REQUIRE(step->now == now);
      REQUIRE(step->events.size() == 1);
      REQUIRE_MESSAGE(test::same(step->events[0], events[0]), log::describe(events[0]));
    }
  }
}

TEST_CASE("many steps share one encoder, times by their differences") {
  RandomEvents random(1);
  log::EventEncoder encoder;
  log::EventDecoder decoder;
  Instant now{};
  for (int i = 0; i < 1000; ++i) {
    const auto events = random.events(random.random().below(6));
    now += Duration(random.random().below(1'000'000'000));
    std::vector<std::byte> bytes;
    encoder.step(now, events, bytes);
    const auto step = decoder.step(bytes);
    REQUIRE(step);
    REQUIRE(step->now == now);
    REQUIRE(step->events.size() == events.size());
    for (std::size_t k = 0; k < events.size(); ++k) REQUIRE(test::same(step->events[k], events[k]));
  }
}

TEST_CASE("a usual step takes few bytes") {
  const std::vector<engine::Event> events = {engine::BatchWanted{JobId(3), 1, 1},
                                             engine::BatchConsumed{JobId(3), 1, 1000, 250ms},
                                             engine::SlotReleased{JobId(3), 1, 1000}};
  std::vector<std::byte> bytes;
  log::EventEncoder().step(Instant(1ms), events, bytes);
  // time 3; kind, job, rank, credits; kind, job, rank, step (2), time (5); kind, job, rank, step.
  CHECK(bytes.size() == 3 + 4 + 10 + 5);
}

TEST_CASE("bytes from outside are a step or they are not, never more") {
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    RandomEvents random(seed);
    std::vector<std::byte> bytes;
    log::EventEncoder().step(Instant(1s), random.events(3), bytes);
    damage(bytes, random.random());
    log::EventDecoder decoder;
    const auto step = decoder.step(bytes);
    if (step) REQUIRE(step->events.size() <= bytes.size());
  }
  log::EventDecoder decoder;
  CHECK_FALSE(decoder.step({}));
}

// ------------------------------------------------------------------ commands and their texts ----

TEST_CASE("every kind of command comes back as it was, many in one list") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomEvents random(seed);
    std::vector<engine::Command> commands;
    for (std::size_t kind = 0; kind < std::variant_size_v<engine::Command>; ++kind)
      commands.push_back(random.make<engine::Command>(kind));
    std::vector<std::byte> bytes;
    log::encode(commands, bytes);
    log::CommandDecoder decoder;
    const auto read = decoder.commands(bytes);
    REQUIRE(read);
    REQUIRE(read->size() == commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i)
      REQUIRE_MESSAGE(test::same((*read)[i], commands[i]), log::describe(commands[i]));
  }
}

TEST_CASE("bytes from another machine are commands or they are not, never more") {
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    RandomEvents random(seed);
    std::vector<engine::Command> commands;
    for (int i = 0; i < 3; ++i)
      commands.push_back(random.make<engine::Command>(
          random.random().below(std::variant_size_v<engine::Command>)));
    std::vector<std::byte> bytes;
    log::encode(commands, bytes);
    damage(bytes, random.random());
    log::CommandDecoder decoder;
    const auto read = decoder.commands(bytes);
    if (read) REQUIRE(read->size() <= bytes.size());
  }
}

TEST_CASE("a digest tells commands apart by kind and every field, not by address") {
  std::set<std::uint64_t> seen;
  std::size_t commands = 0;
  for (std::size_t kind = 0; kind < std::variant_size_v<engine::Command>; ++kind) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      RandomEvents one(hash(kind, seed)), other(hash(kind, seed));
      const auto a = one.make<engine::Command>(kind), b = other.make<engine::Command>(kind);
      REQUIRE(log::digest(a) == log::digest(b));
      seen.insert(log::digest(a));
      ++commands;
    }
  }
  // Small commands (one worker count, one request, one node) may repeat; the rest may not.
  CHECK(seen.size() > commands - 20);

  engine::Deliver deliver;
  const std::uint64_t before = log::digest(deliver);
  deliver.in_place = true;
  CHECK(log::digest(deliver) != before);
  const order::Slice slices[] = {{{1, 2, 3, 4}, 0, 5, false}};
  const std::uint64_t without = log::digest(deliver);
  deliver.slices = slices;
  CHECK(log::digest(deliver) != without);
}

TEST_CASE("the digest of a run knows order and steps") {
  const engine::Command a = engine::SetWorkers{NodeId(1), 2}, b = engine::SetWorkers{NodeId(2), 2};
  const auto digest_of = [](std::vector<std::vector<engine::Command>> steps) {
    log::CommandDigest digest;
    for (const auto& step : steps) digest.add(step);
    return digest.value();
  };
  CHECK(digest_of({{a, b}}) == digest_of({{a, b}}));
  CHECK(digest_of({{a, b}}) != digest_of({{b, a}}));
  CHECK(digest_of({{a, b}}) != digest_of({{a}, {b}}));
  CHECK(digest_of({{a}, {}}) != digest_of({{a}}));
}

TEST_CASE("golden digests: a change breaks comparison with every journal ever written") {
  CHECK(log::digest(engine::SetWorkers{NodeId(1), 2}) == 9090448203163270317u);
  log::CommandDigest run;
  run.add(std::vector<engine::Command>{engine::SetWorkers{NodeId(1), 2},
                                       engine::Cancel{{RequestId(7), 1}}});
  CHECK(run.value() == 9554869971459668698u);
}

TEST_CASE("descriptions name every field, and cut long lists") {
  CHECK(log::describe(engine::Event(engine::BatchConsumed{JobId(3), 0, 17, 250ms})) ==
        "BatchConsumed job=3 rank=0 step=17 compute=0.250000000s");
  for (int why = 0; why <= static_cast<int>(engine::Refusal::other_buffer); ++why) {
    const std::string text = log::describe(
        engine::Command(engine::Refuse{JobId(1), static_cast<engine::Refusal>(why), 0, 0}));
    CHECK(text.find('?') == std::string::npos);
  }
  CHECK(log::describe(
            engine::Command(engine::Refuse{JobId(1), engine::Refusal::wrong_order, 2, 3})) ==
        "Refuse job=1 why=wrong_order needed=2 available=3");
  CHECK(log::describe(engine::Command(engine::Cancel{{RequestId(7), 1}})) ==
        "Cancel request={id=7 attempt=1}");
  CHECK(log::describe(engine::Command(engine::SetTimer{TimerId(1), kNever})) ==
        "SetTimer timer=1 at=never");
  const std::vector<SampleId> samples(20, SampleId(4));
  engine::SamplesWanted wanted{JobId(1), 0, samples, {}, {}};
  CHECK(log::describe(engine::Event(wanted)) ==
        "SamplesWanted job=1 rank=0 samples=[4 4 4 4 4 4 4 4 ... 20 in all] next_uses=[] sizes=[]");
}

}  // namespace batchflow::test::event_codec_test
