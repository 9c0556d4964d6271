// What policies make of the weights of a mixture, worked out by hand; and what becomes of reports
// and of answers that cannot be.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/engine/loss_weights.h"
#include "policies/make.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::mixture_policies_test {

namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

// A mixture of sources with 10 samples each.
class Mixed {
 public:
  Mixed(std::vector<double> weights, std::string_view policy, const engine::PolicyList& list)
      : mixing_(made(std::move(weights))), weights_(policy, list, mixing_) {}
  Mixed(std::vector<double> weights, std::string_view policy)
      : Mixed(std::move(weights), policy, tested_policies()) {}

  Mixed& draw(int samples) {
    while (samples-- > 0) mixing_.take();
    return *this;
  }
  Mixed& report(std::vector<float> losses) {
    weights_.report(losses);
    return *this;
  }
  // The weights that it changes to; nothing: they stay.
  std::optional<std::vector<double>> decided() {
    const auto parts = weights_.decide(JobId(1), mixing_);
    if (!parts) return std::nullopt;
    mixing_.change({mixing_.drawn(), *parts, true});
    return now();
  }
  std::vector<double> now() const {
    std::vector<double> all;
    for (const std::uint64_t part : mixing_.last_parts())
      all.push_back(static_cast<double>(part) / order::Mixture::kWhole);
    return all;
  }
  std::uint64_t refused() const { return weights_.refused(); }

 private:
  static order::Mixing made(std::vector<double> weights) {
    std::vector<SampleRange> sources;
    for (std::size_t i = 0; i < weights.size(); ++i) sources.push_back({SampleId(10 * i), 10});
    auto fields = order::Mixing::beginning(std::move(sources), order::Mixture::parts_of(weights));
    fields.may_change = true;
    std::string problem;
    return *order::Mixing::from(std::move(fields), 10 * weights.size(), problem);
  }

  order::Mixing mixing_;
  engine::LossWeights weights_;
};

void check_near(const std::optional<std::vector<double>>& found, std::vector<double> expected) {
  REQUIRE(found);
  REQUIRE(found->size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs((*found)[i] - expected[i]) < 1e-8);
  }
}

// Answers what the parameter says.
class Wild final : public engine::MixturePolicy {
 public:
  explicit Wild(const engine::MixtureContext& context)
      : answer_(context.parameters.text("answer")) {}
  std::uint64_t every() const override { return 0; }
  void weigh(const engine::MixtureView&, std::span<double> weights) override {
    for (double& weight : weights)
      weight = answer_ == "nan" ? NAN : answer_ == "inf" ? HUGE_VAL : answer_ == "below" ? -1 : 0;
  }

 private:
  std::string answer_;
};
constexpr Parameter kAnswer[] = {{"answer", Parameter::Type::text, "zero", "what it says"}};
const engine::PolicyEntry kWild{
    .name = "wild", .help = "", .make = &policies::make_mixture<Wild>, .parameters = kAnswer};

}  // namespace

TEST_CASE("excess-loss multiplies weights by e to the loss, with a least part for each") {
  Mixed mixed({1, 1, 2}, "excess-loss:every=1:least=0.1:change=1");
  // 0.25 e^1, 0.25 e^0, 0.5 e^0
  const double sum = 0.25 * std::exp(1.0) + 0.25 + 0.5;
  check_near(
      mixed.draw(1).report({1, 0, 0}).decided(),
      {0.1 + 0.7 * 0.25 * std::exp(1.0) / sum, 0.1 + 0.7 * 0.25 / sum, 0.1 + 0.7 * 0.5 / sum});
  // Losses that are alike change nothing but what the least part draws to the middle.
  Mixed even({1, 3}, "excess-loss:every=1:least=0");
  CHECK(even.draw(1).report({5, 5}).decided() == std::nullopt);
}

TEST_CASE("softmax goes by the losses of now") {
  Mixed mixed({9, 1}, "softmax:every=1:least=0:change=1:temperature=2");
  const double sum = std::exp(1.0) + std::exp(0.5);
  check_near(mixed.draw(1).report({2, 1}).decided(), {std::exp(1.0) / sum, std::exp(0.5) / sum});
}

TEST_CASE("ucb moves towards the source that may lose most") {
  Mixed mixed({1, 1, 1}, "ucb:every=1:least=0:change=0.1:explore=0");
  const double third = 1.0 / 3;
  // The target is (0, 1, 0): two thirds off, of which 0.1 are gone at once.
  check_near(mixed.draw(3).report({0.1F, 0.9F, 0.2F}).decided(),
             {third - 0.05, third + 0.1, third - 0.05});
  // What is not drawn from is explored.
  Mixed rare({99, 1}, "ucb:every=1:least=0:change=0.1:explore=9");
  check_near(rare.draw(100).report({1, 1}).decided(), {0.89, 0.11});
}

TEST_CASE("no weight changes by more than it may, and a source without weight stays out") {
  Mixed mixed({0.5, 0.5, 0}, "excess-loss:every=1:least=0.01:change=0.05:rate=100");
  check_near(mixed.draw(1).report({9, 0, 99}).decided(), {0.55, 0.45, 0});
  for (int i = 0; i < 50; ++i) {
    mixed.draw(1).report({9, 0, 99});
    mixed.decided();
  }
  check_near(mixed.now(), {0.99, 0.01, 0});
}

TEST_CASE("a policy is asked after as many samples as it says, by what was reported until then") {
  Mixed mixed({1, 1}, "softmax:every=10:least=0:change=1");
  CHECK(mixed.report({1, 2}).decided() == std::nullopt);
  CHECK(mixed.draw(9).report({3, 4}).decided() == std::nullopt);
  // The means are 3 and 3; the last report says nothing of the first source.
  CHECK(mixed.draw(1).report({5, kNothing}).decided() == std::nullopt);
  CHECK(mixed.draw(5).report({1, 1}).decided() == std::nullopt);
  CHECK(mixed.draw(20).report({kNothing, kNothing}).decided() == std::nullopt);  // (1, 1) alone
  // Nothing was reported of the second source: its mean of before counts.
  const double sum = std::exp(3.0) + std::exp(1.0);
  check_near(mixed.draw(10).report({3, kNothing}).decided(),
             {std::exp(3.0) / sum, std::exp(1.0) / sum});
}

TEST_CASE("a source of which nothing is known counts as the mean of the others") {
  Mixed mixed({1, 1, 1}, "softmax:every=1:least=0:change=1");
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  check_near(mixed.draw(1).report({1, 3, kNothing}).decided(),
             {std::exp(1.0) / sum, std::exp(3.0) / sum, std::exp(2.0) / sum});
  Mixed silent({1, 2}, "softmax:every=1");
  CHECK(silent.draw(1).report({kNothing, INFINITY}).decided() == std::nullopt);
}

TEST_CASE("losses of any size leave weights that are numbers") {
  for (const char* policy : {"excess-loss:every=1:rate=1000000:change=1",
                             "softmax:every=1:temperature=0.000001:change=1", "ucb:every=1"}) {
    CAPTURE(policy);
    Mixed mixed({1, 1}, policy);
    for (const float one : {3e38F, -3e38F, 0.0F, 1e-38F}) {
      mixed.draw(1).report({one, -one});
      mixed.decided();
      CHECK(mixed.now()[0] >= 0);
      CHECK(std::abs(mixed.now()[0] + mixed.now()[1] - 1) < 1e-8);
    }
    CHECK(mixed.refused() == 0);
  }
}

TEST_CASE("answers that are no weights are refused, and the weights stay") {
  const engine::PolicyEntry* const entries[] = {&kWild};
  const engine::PolicyList list(entries);
  for (const char* answer : {"nan", "inf", "below", "zero"}) {
    CAPTURE(answer);
    Mixed mixed({1, 3}, std::string("wild:answer=") + answer, list);
    CHECK(mixed.draw(1).report({1, 1}).decided() == std::nullopt);
    CHECK(mixed.refused() == 1);
    check_near(mixed.now(), {0.25, 0.75});
  }
}

}  // namespace batchflow::test::mixture_policies_test
