// Journals from anywhere, replayed.
#include <doctest/doctest.h>

#include "tests/fuzz/corpus.h"

namespace batchflow::test::journal_fuzz_test {

extern "C" Fuzzer fuzz_journal;

TEST_CASE("damaged journals are refused, and strange ones replayed, without harm") {
  fuzz(fuzz_journal, "journal", 1000, "test_engine", "damaged journals*");
}

TEST_SUITE("long") {
  TEST_CASE("many damaged journals are refused, or replayed without harm") {
    fuzz(fuzz_journal, "journal", 50'000, "test_engine", "many damaged journals*");
  }
}

}  // namespace batchflow::test::journal_fuzz_test
