// Both ends of a remote job, over their corpus and damaged copies of it.
#include <doctest/doctest.h>

#include "tests/fuzz/corpus.h"

namespace batchflow::test::fuzz_test {

extern "C" Fuzzer fuzz_remote;

TEST_CASE("remote: whatever the other side sends, it does no harm and ends") {
  fuzz(fuzz_remote, "remote", 150, "test_remote", "remote: whatever*");
}

TEST_SUITE("long") {
  TEST_CASE("remote: of much that the other side sends all ends") {
    fuzz(fuzz_remote, "remote", 5000, "test_remote", "remote: of much*");
  }
}

}  // namespace batchflow::test::fuzz_test
