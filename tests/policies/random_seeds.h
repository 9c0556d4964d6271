// Random tests draw from seeds 0, 1, 2, ...; BATCHFLOW_SEED=N runs seed N alone, and a failure
// prints that command.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace batchflow::test {

// The text that a failed BF_CHECK, which aborts, prints before the test framework ends the program:
// the framework prints INFO of failed assertions alone.
class SaidOnAbort {
 public:
  SaidOnAbort() : before_(std::signal(SIGABRT, &say)) {}
  ~SaidOnAbort() { std::signal(SIGABRT, before_); }
  SaidOnAbort(const SaidOnAbort&) = delete;
  SaidOnAbort& operator=(const SaidOnAbort&) = delete;
  void set(std::string text) { text_ = std::move(text); }

 private:
  static void say(int signal) {
    std::fprintf(stderr, "%s\n", text_.c_str());
    std::signal(SIGABRT, SIG_DFL);
    std::raise(signal);
  }
  static inline std::string text_;
  void (*before_)(int);
};

// `check(seed)` for each seed; `test_case` and `program` make the command that replays a failure.
template <class Check>
void for_seeds(std::string_view program, std::string_view test_case, std::uint64_t seeds,
               Check check) {
  const char* one = std::getenv("BATCHFLOW_SEED");
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  const std::uint64_t end = one != nullptr ? first + 1 : seeds;
  SaidOnAbort on_abort;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const std::string replay =
        fmt::format("replay: BATCHFLOW_SEED={} {} --test-case='{}'", seed, program, test_case);
    on_abort.set(replay);
    INFO(replay);
    check(seed);
  }
}

// Sanitizers take several times as long for a seed. What they find does not take as many, and each
// seed runs without them as well.
constexpr std::uint64_t sanitized_share(std::uint64_t seeds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (seeds + 2) / 3;
#else
  return seeds;
#endif
}

// `problem_of(seed)`, empty or what is wrong, for seeds first, first + 1, ...; BATCHFLOW_SEEDS=N
// runs N of them. It ends after three problems. Returns how many seeds there should be.
template <class Problem>
std::uint64_t for_problems(std::string_view program, std::string_view test_case,
                           std::uint64_t first, std::uint64_t seeds, Problem problem_of) {
  seeds = sanitized_share(seeds);
  if (const char* one = std::getenv("BATCHFLOW_SEED")) {
    first = std::strtoull(one, nullptr, 10);
    seeds = 1;
  }
  if (const char* many = std::getenv("BATCHFLOW_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  int failed = 0;
  SaidOnAbort on_abort;
  for (std::uint64_t seed = first; seed < first + seeds && failed < 3; ++seed) {
    const std::string replay =
        fmt::format("replay: BATCHFLOW_SEED={} {} --test-case='{}'", seed, program, test_case);
    on_abort.set(replay);
    INFO(replay);
    const auto problem = problem_of(seed);
    if (problem.empty()) continue;
    FAIL_CHECK(problem);
    ++failed;
  }
  return seeds;
}

}  // namespace batchflow::test
