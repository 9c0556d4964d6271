// Random tests draw from seeds 0, 1, 2, ...; BATCHFLOW_SEED=N runs seed N alone, which is what a
// failure prints.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace batchflow::test {

// `check(seed)` for each seed; `test_case` and `program` make the command that replays a failure.
template <class Check>
void for_seeds(std::string_view program, std::string_view test_case, std::uint64_t seeds,
               Check check) {
  const char* one = std::getenv("BATCHFLOW_SEED");
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  const std::uint64_t end = one != nullptr ? first + 1 : seeds;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    INFO(fmt::format("replay: BATCHFLOW_SEED={} {} --test-case='{}'", seed, program, test_case));
    check(seed);
  }
}

// `problem_of(seed)`, empty or what is wrong, for seeds first, first + 1, ...; BATCHFLOW_SEEDS=N
// has N of them. After three problems it ends. Returns how many seeds there were to be.
template <class Problem>
std::uint64_t for_problems(std::string_view program, std::string_view test_case,
                           std::uint64_t first, std::uint64_t seeds, Problem problem_of) {
  if (const char* one = std::getenv("BATCHFLOW_SEED")) {
    first = std::strtoull(one, nullptr, 10);
    seeds = 1;
  }
  if (const char* many = std::getenv("BATCHFLOW_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  int failed = 0;
  for (std::uint64_t seed = first; seed < first + seeds && failed < 3; ++seed) {
    // What an abort, too, would say before it ends the program.
    INFO(fmt::format("replay: BATCHFLOW_SEED={} {} --test-case='{}'", seed, program, test_case));
    const auto problem = problem_of(seed);
    if (problem.empty()) continue;
    FAIL_CHECK(problem);
    ++failed;
  }
  return seeds;
}

}  // namespace batchflow::test
