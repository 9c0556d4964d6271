// Files for tests of readers: written, read, and removed with the test.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"
#include "traces/byte_source.h"

namespace batchflow::test {

using Folder = TemporaryFolder;

// A file that is written again and again, and removed in the end.
class File {
 public:
  const std::string& with(const std::string& content) {
    path_ = folder_.file("trace", content);
    return path_;
  }

 private:
  Folder folder_;
  std::string path_;
};

inline std::string zstd(const std::string& content) {
  return traces::encoded_for(".zst", content);
}
inline std::string gzip(const std::string& content) {
  return traces::encoded_for(".gz", content);
}

}  // namespace batchflow::test
