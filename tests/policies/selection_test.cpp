// The built-in selection policies case by case. (conformance_test.cpp has all of them over random
// candidates.)
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::selection_test {

namespace {

// The answer of the policy when candidates at distances 0, 1, ... are ready ('r') or not ('-').
std::size_t choice_of(std::string_view policy, std::string_view ready) {
  std::vector<engine::SelectionCandidate> candidates;
  for (const char mark : ready) {
    candidates.push_back({static_cast<std::uint32_t>(candidates.size()), mark == 'r', 1, 0});
  }
  const engine::PolicyChoice choice =
      policies::policy_list().choose(engine::PolicyKind::selection, policy);
  return make<engine::MakeSelection>(choice)->choose({JobId(1), Order::relaxed, candidates});
}

}  // namespace

TEST_CASE("ready-first takes the oldest that is ready, strict the oldest or none") {
  CHECK(choice_of("ready-first", "rrr") == 0);
  CHECK(choice_of("ready-first", "-rr") == 1);
  CHECK(choice_of("ready-first", "---r") == 3);
  CHECK(choice_of("ready-first", "---") == engine::kNoChoice);
  CHECK(choice_of("ready-first", "") == engine::kNoChoice);
  CHECK(choice_of("strict", "rrr") == 0);
  CHECK(choice_of("strict", "-rr") == engine::kNoChoice);
  CHECK(choice_of("strict", "") == engine::kNoChoice);
}

TEST_CASE("shade weighs the ranks of scores, fastmatch their distance from the greatest") {
  const auto weigh = [](engine::SelectionPolicy& policy, std::vector<float> scores) {
    std::vector<float> weights(scores.size());
    policy.weigh(JobId(1), scores, weights);
    return weights;
  };
  const auto named = [](const char* text) {
    return make<engine::MakeSelection>(
        policies::policy_list().choose(engine::PolicyKind::selection, text));
  };
  const auto shade = named("shade");
  // ln 11, ln 12, ln 13: of equal scores the first has the lower rank.
  const std::vector<float> ranks = weigh(*shade, {0.3F, -7, 0.3F});
  CHECK(ranks[1] == doctest::Approx(2.397895));
  CHECK(ranks[0] == doctest::Approx(2.484907));
  CHECK(ranks[2] == doctest::Approx(2.564949));
  CHECK(weigh(*shade, {NAN, 1})[1] > weigh(*shade, {NAN, 1})[0]);

  const auto fastmatch = named("fastmatch");
  fastmatch->epoch_began(JobId(1), 0);
  CHECK(weigh(*fastmatch, {1, 3}) == std::vector<float>{1, 1});  // nothing is known yet
  fastmatch->epoch_began(JobId(1), 1);
  // Of 1 and 3 the greatest is 3, and the mean square of the distances from it 2.
  const std::vector<float> gaussian = weigh(*fastmatch, {3, 1, 2});
  CHECK(gaussian[0] == doctest::Approx(1));
  CHECK(gaussian[1] == doctest::Approx(0.367879));  // exp(-4/4)
  CHECK(gaussian[2] == doctest::Approx(0.778801));  // exp(-1/4)
  const auto printed = named("fastmatch:printed=1");
  printed->epoch_began(JobId(1), 0);
  weigh(*printed, std::vector<float>(1000, 1));
  weigh(*printed, {5});
  printed->epoch_began(JobId(1), 1);
  const std::vector<float> flat = weigh(*printed, {5, 1});
  CHECK(flat[0] / flat[1] == doctest::Approx(1).epsilon(0.002));
}

TEST_CASE("substitution takes what is kept, each candidate once") {
  const auto picks = [](const char* text, std::vector<engine::SampleCandidate> candidates,
                        std::size_t samples) {
    const auto policy = make<engine::MakeSelection>(
        policies::policy_list().choose(engine::PolicyKind::selection, text));
    std::vector<std::uint32_t> answer(samples, UINT32_MAX);
    policy->choose_samples({JobId(1), 0, candidates.size(), candidates}, answer);
    return answer;
  };
  const std::vector<engine::SampleCandidate> some{{SampleId(9), 0, false, false, 1},
                                                  {SampleId(8), 0, false, true, 1},
                                                  {SampleId(7), 0, true, false, 1},
                                                  {SampleId(6), 0, false, false, 1},
                                                  {SampleId(5), 0, false, true, 1}};
  using List = std::vector<std::uint32_t>;
  CHECK(picks("quiver", some, 2) == List{1, 2});
  CHECK(picks("quiver", some, 4) == List{1, 2, 4, 0});
  CHECK(picks("seneca", some, 2) == List{2, 1});
  CHECK(picks("deepio:chance=0.5", some, 4) == List{0, 1, 2, 4});
  CHECK(picks("quiver", some, 5) == List{1, 2, 4, 0, 3});
}

}  // namespace batchflow::test::selection_test
