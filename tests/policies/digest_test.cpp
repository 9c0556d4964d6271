// Determinism of every policy of every kind: the same questions get the same answers in another
// instance, whatever other instances are asked meanwhile, and in another process (the ctest
// policies.two_processes compares what is printed here).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "policies/conformance/conformance.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::digest_test {

TEST_SUITE("digests") {
  TEST_CASE("the same questions get the same answers") {
    const bool print = std::getenv("BATCHFLOW_PRINT_DIGESTS") != nullptr;
    for (const engine::PolicyEntry* entry : tested_policies().entries()) {
      for (const engine::PolicyChoice& choice : variants(*entry)) {
        const std::string name =
            fmt::format("{}={}", engine::policy_kind_name(entry->kind()), choice.text());
        CAPTURE(name);
        // Two instances are asked in turn there, and must answer alike.
        const std::uint64_t digest = conformance::use_at_random(choice, 11, 300);
        if (print) std::cout << fmt::format("digest {} {:016x}\n", name, digest);
      }
    }
  }
}

}  // namespace batchflow::test::digest_test
