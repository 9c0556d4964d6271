// For a test that needs what is not here (a device, a folder of traces): it says so and returns.
//
// A program in which a test was skipped, and none failed, exits 77, which ctest counts and shows as
// skipped.
#pragma once

#include <string_view>

namespace batchflow::test {

// Prints why. The caller returns from its test case next.
void skipped(std::string_view why);

}  // namespace batchflow::test
