// Every selection policy over random candidates: it names only ready candidates, or none; and it
// names one when all are ready; and it gives the same answer again. The built-in policies also case
// by case.
#include <doctest/doctest.h>

#include <algorithm>
#include <span>

#include "tests/policies/random_seeds.h"
#include "tests/policies/random_views.h"
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

TEST_CASE("selection takes only what is offered and ready") {
  for_seeds("test_policies", "selection takes only*", 2000, [](std::uint64_t seed) {
    for (const engine::PolicyChoice& choice : variants_of(engine::PolicyKind::selection)) {
      CAPTURE(choice.text());
      Random random(hash(seed, 2));
      const auto policy = make<engine::MakeSelection>(choice, seed);
      const auto again = make<engine::MakeSelection>(choice, seed);
      for (int ask = 0; ask < 5; ++ask) {
        const auto candidates = random_selection(random, random.below(65));
        const engine::SelectionView view{JobId(1), Order::relaxed, candidates};
        const std::size_t taken = policy->choose(view);
        CHECK(taken == again->choose(view));
        if (!policy->looks_behind_ready()) {
          // It is shown no more than this, and must not miss the rest.
          const auto ready = std::find_if(candidates.begin(), candidates.end(),
                                          [](const auto& one) { return one.ready; });
          const std::span shown(candidates.begin(),
                                ready == candidates.end() ? ready : std::next(ready));
          CHECK(again->choose({JobId(1), Order::relaxed, shown}) == taken);
        }
        if (taken == engine::kNoChoice) continue;
        REQUIRE(taken < candidates.size());
        CHECK(candidates[taken].ready);
      }
    }
  });
}

TEST_CASE("selection takes one when all are ready: there is nothing to wait for") {
  for (const engine::PolicyChoice& choice : variants_of(engine::PolicyKind::selection)) {
    CAPTURE(choice.text());
    for (std::uint32_t count = 1; count <= 64; ++count) {
      std::vector<engine::SelectionCandidate> candidates;
      for (std::uint32_t i = 0; i < count; ++i) candidates.push_back({i, true, 1, 0.5});
      CHECK(make<engine::MakeSelection>(choice)->choose({JobId(1), Order::relaxed, candidates}) <
            count);
    }
  }
}

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

}  // namespace batchflow::test::selection_test
