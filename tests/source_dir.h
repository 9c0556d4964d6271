// Where the repository is: for tests that read its files.
#pragma once

#include <filesystem>

namespace batchflow::test {

// Defined in test_main.cpp, the only file whose compilation depends on the place of the repository.
std::filesystem::path source_dir();

}  // namespace batchflow::test
