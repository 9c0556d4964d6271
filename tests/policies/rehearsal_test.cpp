// What buffers keep, by policy: over many buffers, against the rule of each. False alarms of the
// statistical tests are below 10^-6, and seeds are fixed; the canary is another policy in the same
// test, which must fail it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "core/engine/buffers.h"
#include "core/order/rehearsal.h"
#include "policies/make.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::rehearsal_policies_test {

namespace {

engine::Catalogue catalogue_of(std::uint64_t samples, std::uint32_t classes = 0) {
  engine::Catalogue::Parts parts;
  parts.name = "d";
  parts.version = 7;
  parts.samples = samples;
  parts.uniform_bytes = 100;
  parts.classes = classes;
  // Class by class: the first samples are of class 0, as in folders.
  for (std::uint64_t i = 0; classes > 0 && i < samples; ++i)
    parts.labels.push_back(static_cast<std::uint32_t>(i * classes / samples));
  std::string problem;
  auto made = engine::Catalogue::from(std::move(parts), problem);
  REQUIRE_MESSAGE(made, problem);
  return *made;
}

// A buffer with samples first, first + 1, ... shown to it.
class Shown {
 public:
  Shown(const engine::Catalogue& catalogue, std::uint64_t number, std::uint32_t exemplars,
        std::string_view policy)
      : catalogue_(catalogue),
        buffer_({number, catalogue.version()}, exemplars, policy, tested_policies()) {}

  Shown& show(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      const SampleId sample(i);
      buffer_.show(catalogue_, {&sample, 1}, kept_);
    }
    return *this;
  }
  engine::Buffer& buffer() { return buffer_; }
  std::vector<std::uint64_t> ids() const {
    std::vector<std::uint64_t> all;
    for (const engine::Exemplar& one : buffer_.exemplars()) all.push_back(one.sample.value);
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  const engine::Catalogue& catalogue_;
  engine::Buffer buffer_;
  std::vector<engine::KeptExemplar> kept_;
};

// Chi-square per degree of freedom of how often each of `samples` samples is in a buffer of n, over
// many buffers; for a uniform choice without repeats its mean is 1 - n / samples.
double unevenness(std::string_view policy, std::uint64_t samples, std::uint32_t n,
                  std::uint64_t buffers, std::uint64_t passes = 1) {
  const engine::Catalogue catalogue = catalogue_of(samples);
  std::vector<double> counts(samples);
  for (std::uint64_t number = 1; number <= buffers; ++number) {
    Shown shown(catalogue, number, n, policy);
    for (std::uint64_t pass = 0; pass < passes; ++pass) shown.show(0, samples);
    for (const std::uint64_t id : shown.ids()) ++counts[id];
  }
  const double expected = static_cast<double>(buffers) * n / static_cast<double>(samples);
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum / static_cast<double>(samples - 1) / (1 - n / static_cast<double>(samples));
}

std::map<std::uint32_t, std::size_t> by_class(const engine::Buffer& buffer) {
  std::map<std::uint32_t, std::size_t> counts;
  for (const engine::Exemplar& one : buffer.exemplars()) ++counts[one.label];
  return counts;
}

}  // namespace

TEST_CASE("a reservoir is a uniform choice of what was had, however often it came") {
  // 100 samples: chi-square with 99 degrees of freedom is below 1.90 of them but once in 10^6.
  for (const std::uint64_t passes : {1, 3})
    CHECK(unevenness("reservoir", 100, 10, 3000, passes) < 1.9);
  CHECK(unevenness("newest", 100, 10, 3000) > 100);
  CHECK(unevenness("random-replacement:part=1", 100, 10, 3000) > 3);
}

TEST_CASE("a reservoir does not depend on the order in which samples come") {
  const engine::Catalogue catalogue = catalogue_of(500);
  for (std::uint64_t number = 1; number < 20; ++number) {
    Shown forwards(catalogue, number, 30, "reservoir"),
        backwards(catalogue, number, 30, "reservoir");
    forwards.show(0, 500);
    for (std::uint64_t i = 500; i-- > 0;) backwards.show(i, 1);
    CHECK(forwards.ids() == backwards.ids());
    CHECK(forwards.ids().size() == 30);
  }
}

TEST_CASE("random replacement: a sample stays with the chance that its rule gives it") {
  // Part p of the samples come in, each in place of one of n: one that came t samples ago is still
  // there with the chance (1 - p/n)^t, once the buffer is full.
  constexpr std::uint64_t kBuffers = 4000, kSamples = 400;
  constexpr double kPart = 0.5, kSize = 20;
  const engine::Catalogue catalogue = catalogue_of(kSamples);
  std::vector<double> counts(kSamples);
  for (std::uint64_t number = 1; number <= kBuffers; ++number) {
    Shown shown(catalogue, number, 20, "random-replacement:part=0.5");
    shown.show(0, kSamples);
    for (const std::uint64_t id : shown.ids()) ++counts[id];
  }
  for (const std::uint64_t from : {100, 200, 300, 360, 380}) {
    double expected = 0, got = 0, variance = 0;
    for (std::uint64_t i = from; i < from + 20; ++i) {
      const double chance =
          kPart * std::pow(1 - kPart / kSize, static_cast<double>(kSamples - 1 - i));
      expected += kBuffers * chance;
      variance += kBuffers * chance * (1 - chance);
      got += counts[i];
    }
    CAPTURE(from);
    // Those of one buffer are not independent: they push one another out, which only narrows it.
    CHECK(std::abs(got - expected) < 4.9 * std::sqrt(variance));
  }
}

TEST_CASE("random replacement and per class: classes have equal parts, whenever one looks") {
  const engine::Catalogue catalogue = catalogue_of(1000, 10);
  for (const char* policy : {"random-replacement:part=1", "per-class"}) {
    Shown shown(catalogue, 3, 60, policy);
    for (std::uint64_t seen = 1; seen <= 10; ++seen) {
      shown.show((seen - 1) * 100, 100);
      const auto counts = by_class(shown.buffer());
      CAPTURE(policy);
      CAPTURE(seen);
      CHECK(shown.ids().size() == 60);
      CHECK(counts.size() == seen);
      for (const auto& [label, count] : counts) {
        CHECK(count >= 60 / seen);
        CHECK(count <= 60 / seen + 1);
      }
    }
  }
  // The canary: a reservoir has what chance gives.
  Shown shown(catalogue, 3, 60, "reservoir");
  const auto counts = by_class(shown.show(0, 1000).buffer());
  CHECK(std::any_of(counts.begin(), counts.end(),
                    [](const auto& one) { return one.second < 5 || one.second > 7; }));
}

TEST_CASE("per class: a uniform choice of each class, and no more than was asked for") {
  const engine::Catalogue catalogue = catalogue_of(200, 4);
  std::vector<double> counts(200);
  constexpr std::uint64_t kBuffers = 3000;
  for (std::uint64_t number = 1; number <= kBuffers; ++number) {
    Shown shown(catalogue, number, 20, "per-class");
    for (const std::uint64_t id : shown.show(0, 200).ids()) ++counts[id];
  }
  double sum = 0;
  for (const double count : counts) sum += (count - 300) * (count - 300) / 300;
  CHECK(sum / 196 / 0.9 < 1.6);  // 196 degrees of freedom
  CHECK(by_class(Shown(catalogue, 1, 100, "per-class:samples=7").show(0, 200).buffer()) ==
        std::map<std::uint32_t, std::size_t>{{0, 7}, {1, 7}, {2, 7}, {3, 7}});
}

TEST_CASE("per class: herding keeps a mean near that of the class") {
  constexpr std::size_t kFeatures = 8;
  const engine::Catalogue catalogue = catalogue_of(400, 2);
  const auto features_of = [](std::uint64_t sample) {
    Random random(hash(sample, 77));
    std::vector<float> features(kFeatures);
    for (float& one : features)
      one = static_cast<float>(random.unit() + random.unit() + (sample < 200 ? 0 : 3));
    return features;
  };
  // How far the mean of the exemplars of class 0 is from that of its samples.
  const auto distance = [&](std::uint64_t number, bool reports) {
    Shown shown(catalogue, number, 20, "per-class");
    for (std::uint64_t i = 0; i < 400; ++i) {
      if (reports) shown.buffer().describe(SampleId(i), std::nullopt, features_of(i));
      shown.show(i, 1);
    }
    std::vector<double> off(kFeatures);
    for (std::uint64_t i = 0; i < 200; ++i) {
      for (std::size_t k = 0; k < kFeatures; ++k) off[k] -= features_of(i)[k] / 200.0;
    }
    double count = 0;
    for (const engine::Exemplar& one : shown.buffer().exemplars()) count += one.label == 0;
    for (const engine::Exemplar& one : shown.buffer().exemplars()) {
      for (std::size_t k = 0; one.label == 0 && k < kFeatures; ++k)
        off[k] += features_of(one.sample.value)[k] / count;
    }
    double sum = 0;
    for (const double one : off) sum += one * one;
    return std::sqrt(sum);
  };
  double herded = 0, chosen = 0;
  for (std::uint64_t number = 1; number <= 30; ++number) {
    herded += distance(number, true);
    chosen += distance(number, false);
  }
  CHECK(herded < chosen / 3);
}

TEST_CASE("by score: exactly the samples with the highest scores, or the lowest") {
  const engine::Catalogue catalogue = catalogue_of(300);
  const auto score_of = [](std::uint64_t i) { return static_cast<float>(Random(i).below(1000)); };
  for (const bool highest : {true, false}) {
    Shown shown(catalogue, 4, 25, highest ? "by-score" : "by-score:highest=false");
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 0; i < 300; ++i) {
      shown.buffer().score(SampleId(i), score_of(i));
      shown.show(i, 1);
      all.push_back(i);
    }
    std::sort(all.begin(), all.end(), [&](std::uint64_t a, std::uint64_t b) {
      return highest ? score_of(a) > score_of(b) : score_of(a) < score_of(b);
    });
    const float last = score_of(all[24]);
    for (const std::uint64_t id : shown.ids())
      CHECK((highest ? score_of(id) >= last : score_of(id) <= last));
    CHECK(shown.ids().size() == 25);
    // A score that changes counts at once: the exemplar leaves for the next sample.
    const SampleId worse = shown.buffer().exemplars()[0].sample;
    shown.buffer().score(worse, highest ? -1 : 2000);
    shown.buffer().score(SampleId(all[299]), highest ? 1e6F : -1e6F);
    shown.show(all[299], 1);
    const auto ids = shown.ids();
    CHECK(std::count(ids.begin(), ids.end(), worse.value) == 0);
    CHECK(std::count(ids.begin(), ids.end(), all[299]) == 1);
  }
}

TEST_CASE("prioritised: the last samples, drawn by (score + epsilon)^alpha") {
  const engine::Catalogue catalogue = catalogue_of(100);
  Shown shown(catalogue, 5, 10, "prioritised:alpha=0.5:epsilon=0.01");
  shown.show(0, 100);
  CHECK(shown.ids() == std::vector<std::uint64_t>{90, 91, 92, 93, 94, 95, 96, 97, 98, 99});
  double total = 0;
  std::map<std::uint64_t, double> weights;
  for (std::uint64_t id = 90; id < 100; ++id) {
    const double score = static_cast<double>((id - 89) * (id - 89));
    if (id < 99) shown.buffer().score(SampleId(id), static_cast<float>(score));
    // The last one has no score: it gets the greatest that there is.
    weights[id] = std::sqrt((id < 99 ? score : 81.0) + 0.01);
    total += weights[id];
  }
  const auto exemplars = shown.buffer().whole();
  const order::Rehearsal rehearsal(exemplars, {1, 2}, 3);
  order::PermutationCache permutations;
  constexpr std::size_t kRounds = 4000;
  std::vector<order::Draw> draws(10 * kRounds);
  rehearsal.fill(0, draws, permutations);
  std::map<std::uint64_t, double> counts;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::map<std::uint64_t, double> here;
    for (std::size_t i = 0; i < 10; ++i) ++here[draws[10 * round + i].sample.value];
    for (const auto& [id, weight] : weights) {
      const double due = 10 * weight / total;
      REQUIRE(here[id] >= std::floor(due - 0.01));
      REQUIRE(here[id] <= std::ceil(due + 0.01));
      counts[id] += here[id];
    }
  }
  for (const auto& [id, weight] : weights) {
    const double due = 10 * weight / total, part = due - std::floor(due);
    CAPTURE(id);
    CHECK(std::abs(counts[id] - kRounds * due) <
          4.9 * std::sqrt(kRounds * part * (1 - part)) + kRounds * 0.002);
  }
}

TEST_CASE("without an exponent priorities draw all alike") {
  const engine::Catalogue catalogue = catalogue_of(100);
  Shown shown(catalogue, 5, 10, "prioritised:alpha=0");
  shown.show(0, 100);
  for (std::uint64_t id = 90; id < 100; ++id)
    shown.buffer().score(SampleId(id), static_cast<float>(id - 90));
  const auto exemplars = shown.buffer().whole();
  const order::Rehearsal rehearsal(exemplars, {1, 2}, 3);
  order::PermutationCache permutations;
  std::vector<order::Draw> draws(10);
  rehearsal.fill(20, draws, permutations);
  std::set<std::uint64_t> ids;
  for (const order::Draw& draw : draws) ids.insert(draw.sample.value);
  CHECK(ids.size() == 10);
}

TEST_CASE("a buffer that is restored keeps the same from then on") {
  const engine::Catalogue catalogue = catalogue_of(2000, 7);
  for (const char* policy :
       {"reservoir", "random-replacement", "per-class", "by-score", "prioritised", "newest"}) {
    Shown first(catalogue, 9, 50, policy), again(catalogue, 9, 50, policy);
    first.show(0, 1000);
    REQUIRE(again.buffer().restore(first.buffer().shown(), first.buffer().exemplars()));
    const std::shared_ptr<const order::Exemplars> before = first.buffer().whole();
    CAPTURE(policy);
    CHECK(again.buffer().whole()->digest == before->digest);
    first.show(1000, 1000);
    again.show(1000, 1000);
    CHECK(again.buffer().whole()->digest == first.buffer().whole()->digest);
    CHECK(first.buffer().whole()->digest != before->digest);
    CHECK(first.buffer().refused() == 0);
  }
}

TEST_CASE("exemplars that no buffer can have are not restored") {
  const engine::Catalogue catalogue = catalogue_of(100);
  const engine::Exemplar one{SampleId(3), 0, false, 0, 5}, other{SampleId(4), 0, false, 0, 6};
  const auto takes = [&](std::uint64_t shown, std::vector<engine::Exemplar> exemplars) {
    return Shown(catalogue, 1, 2, "reservoir").buffer().restore(shown, exemplars);
  };
  CHECK(takes(7, {one, other}));
  CHECK_FALSE(takes(6, {one, other}));       // the second came later than the last
  CHECK_FALSE(takes(7, {one, one}));         // twice
  CHECK_FALSE(takes(7, {one, other, one}));  // more than there is room for
  CHECK_FALSE(takes(7, {{SampleId(3), 0, true, NAN, 5}}));
}

namespace {

// Names an exemplar that there is not.
class Wild final : public engine::RehearsalPolicy {
 public:
  explicit Wild(const engine::RehearsalContext&) {}
  std::size_t choose(const engine::RehearsalView& sample, Random) override {
    return sample.exemplar.sample.value % 2 == 0 ? shown_++ : 1'000'000;
  }
  void put(std::size_t, const engine::RehearsalView&) override {}

 private:
  std::size_t shown_ = 0;
};
const engine::PolicyEntry kWild{"wild", "", &policies::make_rehearsal<Wild>};

}  // namespace

TEST_CASE("an answer that breaks a rule is refused and counted, and nothing else happens") {
  const engine::PolicyEntry* const entries[] = {&kWild};
  const engine::PolicyList list(entries);
  const engine::Catalogue catalogue = catalogue_of(100);
  engine::Buffer buffer({1, 7}, 5, "wild", list);
  std::vector<engine::KeptExemplar> kept;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const SampleId sample(i);
    buffer.show(catalogue, {&sample, 1}, kept);
  }
  CHECK(buffer.exemplars().size() == 5);
  CHECK(kept.size() == 5);
  CHECK(buffer.refused() == 15);  // ten that are odd, and five for which there is no room
  CHECK(buffer.shown() == 20);
}

}  // namespace batchflow::test::rehearsal_policies_test
