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

}  // namespace batchflow::test
