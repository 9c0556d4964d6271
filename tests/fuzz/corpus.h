// Runs a fuzzer of tests/fuzz/ over its corpus and over damaged copies of it, as an ordinary test.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "tests/policies/random_seeds.h"
#include "tests/source_dir.h"
#include "tests/traces/damage.h"

namespace batchflow::test {

using Fuzzer = int(const std::uint8_t*, std::size_t);

inline std::vector<std::string> read_corpus(std::string_view name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests/fuzz" / name / "corpus"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    corpus.push_back(bytes.str());
  }
  return corpus;
}

// `program` and `test_case` are for the command that repeats a failure.
inline void fuzz(Fuzzer* fuzzer, std::string_view name, std::uint64_t seeds, const char* program,
                 const char* test_case) {
  const std::vector<std::string> corpus = read_corpus(name);
  REQUIRE_FALSE(corpus.empty());
  const auto run = [&](const std::string& bytes) {
    // The copy is exactly as long, so that a sanitizer sees a read beyond its end.
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    fuzzer(input.data(), input.size());
  };
  for (const std::string& bytes : corpus) run(bytes);
  for_seeds(program, test_case, seeds, [&](std::uint64_t seed) {
    Random random(seed);
    run(damaged(corpus[random.below(corpus.size())], random));
  });
}

}  // namespace batchflow::test
