#include "core/order/mixing.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/order/mixed_epoch.h"
#include "core/order/permutation.h"
#include "core/order/position_bytes.h"
#include "core/order/position_json.h"

namespace batchflow::test::mixing_test {

namespace {

using order::MixedEpoch;
using order::Mixing;
using order::Mixture;
using order::MixtureChange;
using order::Position;

constexpr std::uint64_t kSamples = 1000;
constexpr order::KeyRoot kRoot{7, 3};

std::vector<SampleRange> three_sources() {
  return {{SampleId(500), 400}, {SampleId(0), 30}, {SampleId(40), 7}};
}

Mixing mixing_of(std::vector<SampleRange> sources, const std::vector<double>& weights) {
  std::string problem;
  auto mixing = Mixing::from(Mixing::beginning(std::move(sources), Mixture::parts_of(weights)),
                             kSamples, problem);
  CHECK(problem == "");
  REQUIRE(mixing);
  return *mixing;
}

std::vector<double> random_weights(Random& random, std::size_t count) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < count; ++i)
    weights.push_back(random.below(3) == 0 ? 0 : 1 + static_cast<double>(random.below(100)));
  weights[random.below(count)] = 50;
  return weights;
}

Mixing through_bytes(const Mixing& mixing) {
  std::vector<std::byte> bytes;
  encode(mixing, bytes);
  std::string problem;
  auto again = order::decode_mixing(bytes, kSamples, problem);
  CHECK(problem == "");
  REQUIRE(again);
  return *again;
}

std::vector<order::Draw> draws_of(MixedEpoch& epoch, std::uint64_t first, std::size_t count) {
  std::vector<order::Draw> draws(count);
  epoch.fill(first, draws);
  return draws;
}

}  // namespace

TEST_CASE("a mixture that goes on from its bytes draws what it would have drawn") {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    Mixing undisturbed = mixing_of(three_sources(), random_weights(random, 3));
    Mixing other = undisturbed;
    for (int i = 0; i < 400; ++i) {
      if (random.below(20) == 0) {
        const MixtureChange change{undisturbed.drawn() + random.below(30),
                                   Mixture::parts_of(random_weights(random, 3))};
        CHECK(undisturbed.problem_of(change) == "");
        undisturbed.change(change);
        other.change(change);
      }
      if (random.below(5) == 0) other = through_bytes(other);
      REQUIRE(other.next().source == undisturbed.next().source);
      REQUIRE(other.next().item == undisturbed.next().item);
      REQUIRE(other.digest() == undisturbed.digest());
      undisturbed.take();
      other.take();
    }
    CHECK(other.fields() == undisturbed.fields());
  }
}

TEST_CASE("damaged bytes of a mixture are refused, or are another one") {
  Mixing mixing = mixing_of(three_sources(), {1, 2, 3});
  for (int i = 0; i < 100; ++i) mixing.take();
  mixing.change({120, Mixture::parts_of(std::vector<double>{3, 2, 1})});
  std::vector<std::byte> bytes;
  encode(mixing, bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<std::byte> damaged = bytes;
      damaged[at] = static_cast<std::byte>(value);
      std::string problem;
      auto other = order::decode_mixing(damaged, kSamples, problem);
      CHECK(other.has_value() == problem.empty());
      for (int i = 0; other && i < 50; ++i) other->take();
    }
    std::string problem;
    CHECK(!order::decode_mixing(std::span(bytes).first(at), kSamples, problem));
  }
}

TEST_CASE("a mixture that no job can be at is refused with the reason") {
  const auto problem_of = [](auto change) {
    Mixing::Fields fields =
        Mixing::beginning(three_sources(), Mixture::parts_of(std::vector<double>{1, 1, 1}));
    change(fields);
    std::string problem;
    CHECK(!Mixing::from(fields, kSamples, problem));
    return problem;
  };
  using Fields = Mixing::Fields;
  CHECK(problem_of([](Fields& f) { f.sources[1].samples = 0; }) == "a source without samples");
  CHECK(problem_of([](Fields& f) { f.sources[1].samples = 41; }) ==
        "two sources have samples in common");
  CHECK(problem_of([](Fields& f) { f.sources[0].samples = 501; }) ==
        "a source ends behind the 1000 samples of the dataset");
  CHECK(problem_of([](Fields& f) { f.states.pop_back(); }) == "2 weights for 3 sources");
  CHECK(problem_of([](Fields& f) { --f.states[0].part; }) ==
        "weights that add up to less than the whole");
  CHECK(problem_of([](Fields& f) { f.states[0].behind = 1; }) ==
        "sources that are due more, or less, than was drawn");
  CHECK(problem_of([](Fields& f) {
          f.states[0] = {0, 0, 5};
          f.states[1] = {Mixture::kWhole, 0, -5};
          f.states[2] = {0, 0, 0};
        }) == "a source without weight that is due samples");
  CHECK(problem_of([](Fields& f) { f.sources.assign(4097, {}); }) ==
        "4097 sources; a mixture has 1 to 4096");
  CHECK(problem_of([](Fields& f) {
          f.states[0].taken = 5;
          f.changes = {{3, std::vector<std::uint64_t>(3)}};
        }) == "weights from draw 3 on, and none can change before draw 5");
}

TEST_CASE("a change that came later than asked stays before those that are asked for after it") {
  Mixing mixing = mixing_of(three_sources(), {1, 2, 3});
  const std::vector<std::uint64_t> first = Mixture::parts_of(std::vector<double>{1, 0, 0});
  const std::vector<std::uint64_t> second = Mixture::parts_of(std::vector<double>{0, 1, 0});
  for (int i = 0; i < 10; ++i) mixing.take();
  CHECK(mixing.soonest() == 10);
  mixing.change({50, first, true});
  Mixing again = through_bytes(mixing);
  CHECK(again.soonest() == 50);
  CHECK(again.problem_of({30, second, true}) ==
        "weights from draw 30 on, and none can change before draw 50");
  again.change({50, second, true});
  while (again.drawn() < 50) again.take();
  CHECK(again.part(0) == 0);
  CHECK(again.part(1) == Mixture::kWhole);
  // As many as there may be.
  for (std::size_t left = again.changes_left(); left > 0; --left) {
    CHECK(again.changes_left() == left);
    again.change({1000, first});
  }
  CHECK(again.problem_of({1000, first}) == "64 changes of the weights are to come already");
}

TEST_CASE("an epoch of a mixture has each sample of a source once a pass, at its share") {
  MixedEpoch epoch(mixing_of(three_sources(), {0.5, 0.3, 0.2}), kRoot, 0, 2000);
  int calls = 1;  // each finds the order of one source at least
  while (!epoch.settle(1)) ++calls;
  CHECK(calls == 3);
  std::map<std::uint64_t, std::map<std::uint64_t, int>> visits;  // pass, sample
  std::array<std::uint64_t, 3> counts{};
  std::uint64_t index = 0;
  for (const order::Draw& draw : draws_of(epoch, 0, 2000)) {
    const std::uint64_t id = draw.sample.value;
    const std::size_t source = id >= 500 ? 0 : id >= 40 ? 2 : 1;
    CHECK(++visits[draw.occurrence][id] == 1);
    const std::uint64_t item = counts[source]++;
    CHECK(draw.occurrence == item / three_sources()[source].samples);
    ++index;
    const std::array<double, 3> parts{0.5, 0.3, 0.2};
    for (std::size_t i = 0; i < 3; ++i) {
      const double due = parts[i] * static_cast<double>(index);
      CHECK(static_cast<double>(counts[i]) > due - 1.001);
      CHECK(static_cast<double>(counts[i]) < due + 1.001);
    }
  }
  CHECK(visits[0].size() == 437);
  CHECK(epoch.draws_a_pass(SampleId(501)) == doctest::Approx(800));
  CHECK(epoch.draws_a_pass(SampleId(38)) == 0);
}

TEST_CASE("an epoch gives the same draws in any pieces, and from any index on") {
  Random random(2);
  for (int round = 0; round < 30; ++round) {
    Mixing mixing = mixing_of(three_sources(), random_weights(random, 3));
    MixedEpoch whole(mixing, kRoot, 0, 600);
    const std::vector<order::Draw> all = draws_of(whole, 0, 600);
    MixedEpoch pieces(mixing, kRoot, 0, 600);
    CHECK(pieces.generation() == whole.generation());
    std::uint64_t kept = 0;
    for (std::uint64_t at = 0; at < 600;) {
      const std::uint64_t first = kept + random.below(at - kept + 1);
      const std::uint64_t end = std::min<std::uint64_t>(600, at + 1 + random.below(40));
      const auto some = draws_of(pieces, first, end - first);
      CHECK(std::equal(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
      at = end;
      if (random.below(3) == 0) {
        kept += random.below(at - kept + 1);
        pieces.forget(kept);
        CHECK(pieces.has(kept));
        CHECK((kept == 0 || !pieces.has(kept - 1)));
      }
    }
    const std::uint64_t had = random.below(600);
    for (std::uint64_t i = 0; i < had; ++i) mixing.take();
    MixedEpoch later(mixing, kRoot, had, 600);
    CHECK((had == 0 || later.generation() != whole.generation()));
    const std::uint64_t block = had / 16 * 16;
    const auto rest = draws_of(later, block, 600 - block);
    CHECK(std::equal(rest.begin() + static_cast<std::ptrdiff_t>(had - block), rest.end(),
                     all.begin() + static_cast<std::ptrdiff_t>(had)));
  }
}

TEST_CASE("positions in a mixture are the same in bytes and JSON, and advance with their slices") {
  Random random(3);
  Position position = Position::mixed(mixing_of(three_sources(), {3, 2, 1}), 7, kSamples, 3, 64);
  Mixing mixing = *position.fields().mixing;
  for (int round = 0; round < 40; ++round) {
    const auto left = static_cast<std::uint32_t>(64 - position.consumed());
    const std::uint32_t count = std::min(left, static_cast<std::uint32_t>(1 + random.below(20)));
    const order::Slice slice{{9, 0, 0, 0}, 0, count, false, false};
    CHECK(position.apply(std::span(&slice, 1)) == "");
    for (std::uint32_t i = 0; i < count; ++i) mixing.take();
    if (position.consumed() == 64) position.finish_epoch();
    if (round == 20) {
      const MixtureChange change{mixing.drawn() + 3,
                                 Mixture::parts_of(std::vector<double>{0, 0, 1})};
      CHECK(position.change(change) == "");
      mixing.change(change);
    }
    CHECK(position.fields().mixing->digest() == mixing.digest());
    std::string problem;
    std::vector<std::byte> bytes;
    encode(position, bytes);
    const auto decoded = order::decode_position(bytes, problem);
    REQUIRE(decoded);
    const std::string json = to_json(position);
    CHECK(to_json(*decoded) == json);
    const auto read = order::position_from_json(json, problem);
    CHECK(problem == "");
    REQUIRE(read);
    CHECK(to_json(*read) == json);
  }
  std::string problem;
  const auto refused = [&](const std::string& rest) {
    const std::string text = R"({"v":1,"order":"mixed","dataset":"0000000000000007",)"
                             R"("samples":1000,"seed":3,"epoch":0,"consumed":0)" +
                             rest + "}";
    CHECK(!order::position_from_json(text, problem));
    return problem;
  };
  CHECK(refused("") == "a mixed order without a mixture, or draws");
  CHECK(refused(R"(,"draws":5)") == "a position lacks mixture");
  CHECK(refused(R"(,"draws":5,"weights":"0000000000000007")") ==
        "a position has fields of another order");
  CHECK(refused(R"(,"draws":5,"mixture":"AAA=")") == "these bytes are not one whole mixture");
  CHECK(Position(Order::strict, 7, kSamples, 3).change({0, {}}) ==
        "weights of sources in an order that has none");
}

namespace {

// Sanitizers bring an allocator of their own, which does not say what is taken.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapIsMeasured = false;
#else
constexpr bool kHeapIsMeasured = true;
#endif

Bytes heap() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace

TEST_CASE("a thousand sources of any size take less than 1 MiB each") {
  constexpr std::uint64_t kSources = kHeapIsMeasured ? 1000 : 10;
  constexpr std::uint64_t kEach = order::Permutation::kTableMost;  // larger ones have no table
  std::vector<double> weights(kSources, 1);
  weights.front() = static_cast<double>(kSources - 1);  // it is drawn every other time
  const Bytes before = heap();
  std::vector<SampleRange> sources;
  for (std::uint64_t i = 0; i < kSources; ++i) sources.push_back({SampleId(i * kEach), kEach});
  std::string problem;
  auto mixing = Mixing::from(Mixing::beginning(std::move(sources), Mixture::parts_of(weights)),
                             kSources * kEach, problem);
  REQUIRE(mixing);
  MixedEpoch epoch(*std::move(mixing), kRoot, 0, std::uint64_t{1} << 40);
  REQUIRE(epoch.settle(kSources * kEach));
  const auto bytes_of_each = [&] {
    return static_cast<double>(heap() - before) / static_cast<double>(kSources);
  };
  const double at_first = bytes_of_each();
  std::vector<order::Draw> draws(256);
  for (std::uint64_t at = 0; at < 3 * kEach; at += draws.size()) {
    epoch.fill(at, draws);
    epoch.forget(at);
  }
  const double in_second_pass = bytes_of_each();
  MESSAGE("bytes of a source: " << at_first << ", and " << in_second_pass
                                << " once one is in its second pass");
  if (!kHeapIsMeasured) return;
  CHECK(at_first > 2.0 * 2 * kEach);  // its table and the inverse, or nothing was measured
  CHECK(at_first < 1 << 20);
  CHECK(in_second_pass < 1 << 20);
}

}  // namespace batchflow::test::mixing_test
