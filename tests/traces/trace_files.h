// Files for tests of readers: written, read, and removed with the test.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "traces/byte_source.h"

namespace batchflow::test {

// A folder for each test, removed with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "batchflow-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::filesystem::path path_;
};

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
