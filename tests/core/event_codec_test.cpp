#include "core/event_codec.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "core/command_digest.h"
#include "core/describe.h"
#include "tests/core/random_events.h"

using namespace batchflow;
using namespace std::chrono_literals;
using test::RandomEvents;

TEST_CASE("every kind of event comes back as it was, whatever it holds") {
  for (std::size_t kind = 0; kind < std::variant_size_v<Event>; ++kind) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      CAPTURE(kind);
      CAPTURE(seed);
      RandomEvents random(hash(kind, seed));
      const std::vector<Event> events = {random.make<Event>(kind)};
      const Instant now(Duration(static_cast<std::int64_t>(random.random().draw())));
      std::vector<std::byte> bytes;
      EventEncoder().step(now, events, bytes);
      EventDecoder decoder;
      const auto step = decoder.step(bytes);
      REQUIRE(step);
      REQUIRE(step->now == now);
      REQUIRE(step->events.size() == 1);
      REQUIRE_MESSAGE(test::same(step->events[0], events[0]), describe(events[0]));
    }
  }
}

TEST_CASE("many steps share one encoder, times by their differences") {
  RandomEvents random(1);
  EventEncoder encoder;
  EventDecoder decoder;
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
  const std::vector<Event> events = {BatchWanted{JobId(3), 1, 1},
                                     BatchConsumed{JobId(3), 1, 1000, 250ms},
                                     SlotReleased{JobId(3), 1, 1000}};
  std::vector<std::byte> bytes;
  EventEncoder().step(Instant(1ms), events, bytes);
  // time 3; kind, job, rank, credits; kind, job, rank, step (2), time (5); kind, job, rank, step.
  CHECK(bytes.size() == 3 + 4 + 10 + 5);
}

TEST_CASE("bytes nobody vouches for are a step or they are not, never more") {
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    RandomEvents random(seed);
    std::vector<std::byte> bytes;
    EventEncoder().step(Instant(1s), random.events(3), bytes);
    for (std::uint64_t i = random.random().below(4); i > 0 && !bytes.empty(); --i) {
      const auto at = static_cast<std::ptrdiff_t>(random.random().below(bytes.size()));
      if (random.random().below(3) == 0) {
        bytes.erase(bytes.begin() + at);
      } else {
        bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(random.random().below(256));
      }
    }
    EventDecoder decoder;
    const auto step = decoder.step(bytes);
    if (step) REQUIRE(step->events.size() <= bytes.size());
  }
  EventDecoder decoder;
  CHECK_FALSE(decoder.step({}));
}

// -------------------------------------------------------------------- commands and their texts
// ----

TEST_CASE("a digest tells commands apart by kind and every field, not by address") {
  std::set<std::uint64_t> seen;
  std::size_t commands = 0;
  for (std::size_t kind = 0; kind < std::variant_size_v<Command>; ++kind) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      RandomEvents one(hash(kind, seed)), other(hash(kind, seed));
      const auto a = one.make<Command>(kind), b = other.make<Command>(kind);
      REQUIRE(digest(a) == digest(b));
      seen.insert(digest(a));
      ++commands;
    }
  }
  // Small commands (one worker count, one request) may repeat; the rest may not.
  CHECK(seen.size() > commands - 15);

  Deliver deliver;
  const std::uint64_t before = digest(deliver);
  deliver.in_place = true;
  CHECK(digest(deliver) != before);
  const Slice slices[] = {{{1, 2, 3, 4}, 0, 5, false}};
  const std::uint64_t without = digest(deliver);
  deliver.slices = slices;
  CHECK(digest(deliver) != without);
}

TEST_CASE("the digest of a run knows order and steps") {
  const Command a = SetWorkers{NodeId(1), 2}, b = SetWorkers{NodeId(2), 2};
  const auto of = [](std::vector<std::vector<Command>> steps) {
    CommandDigest digest;
    for (const auto& step : steps) digest.add(step);
    return digest.value();
  };
  CHECK(of({{a, b}}) == of({{a, b}}));
  CHECK(of({{a, b}}) != of({{b, a}}));
  CHECK(of({{a, b}}) != of({{a}, {b}}));
  CHECK(of({{a}, {}}) != of({{a}}));
}

TEST_CASE("golden digests: a change breaks comparison with every journal ever written") {
  CHECK(digest(SetWorkers{NodeId(1), 2}) == 9090448203163270317u);
  CommandDigest run;
  run.add(std::vector<Command>{SetWorkers{NodeId(1), 2}, Cancel{{RequestId(7), 1}}});
  CHECK(run.value() == 9554869971459668698u);
}

TEST_CASE("descriptions name every field, and cut long lists") {
  CHECK(describe(Event(BatchConsumed{JobId(3), 0, 17, 250ms})) ==
        "BatchConsumed job=3 rank=0 step=17 compute=0.250000000s");
  for (int why = 0; why <= static_cast<int>(Refusal::wrong_order); ++why) {
    const std::string text = describe(Command(Refuse{JobId(1), static_cast<Refusal>(why), 0, 0}));
    CHECK(text.find('?') == std::string::npos);
  }
  CHECK(describe(Command(Refuse{JobId(1), Refusal::wrong_order, 2, 3})) ==
        "Refuse job=1 why=wrong_order needed=2 available=3");
  CHECK(describe(Command(Cancel{{RequestId(7), 1}})) == "Cancel request={id=7 attempt=1}");
  CHECK(describe(Command(SetTimer{TimerId(1), kNever})) == "SetTimer timer=1 at=never");
  const std::vector<SampleId> samples(20, SampleId(4));
  SamplesWanted wanted{JobId(1), 0, samples, {}, {}};
  CHECK(describe(Event(wanted)) ==
        "SamplesWanted job=1 rank=0 samples=[4 4 4 4 4 4 4 4 ... 20 in all] next_uses=[] sizes=[]");
}
