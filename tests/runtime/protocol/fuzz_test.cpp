// The fuzzers of the protocol, over their corpora and damaged copies of them.
#include <doctest/doctest.h>

#include "tests/fuzz/corpus.h"

namespace batchflow::test::fuzz_test {

extern "C" Fuzzer fuzz_frame, fuzz_message, fuzz_ring;

TEST_CASE("protocol: damaged frames, messages and rings do no harm") {
  const auto run = [](Fuzzer* fuzzer, const char* name) {
    fuzz(fuzzer, name, 5000, "test_protocol", "protocol: damaged*");
  };
  run(fuzz_frame, "frame");
  run(fuzz_message, "message");
  run(fuzz_ring, "ring");
}

}  // namespace batchflow::test::fuzz_test
