// For a test that needs what is not here (a device, a folder of traces): it says so and returns.
//
// A program in which a test was skipped, and none failed, exits 77, which ctest shows as skipped.
// `./dev test` counts test cases, lists those that were skipped, and fails where tests/skips.txt
// does not allow it.
#pragma once

#include <string_view>

namespace batchflow::test {

// Prints `skipped: TEST CASE: why`. The caller returns from its test case next.
void skipped(std::string_view why);

}  // namespace batchflow::test
