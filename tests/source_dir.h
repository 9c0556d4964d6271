// Where the repository is: for tests that read its files.
#pragma once

#include <filesystem>

namespace batchflow::test {

// Defined in test_main.cpp. Of all files, only that one is compiled with the repository's path.
std::filesystem::path source_dir();

}  // namespace batchflow::test
