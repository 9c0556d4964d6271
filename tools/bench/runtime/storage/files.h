// The files that are read: below a folder of their own, removed at the end.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/types.h"

namespace batchflow::bench {

class BenchFiles {
 public:
  // `big`, and for each size a folder SIZE with files 0 to count - 1. They are written in random
  // order, so that neighbours by number are not neighbours on the drive.
  BenchFiles(const std::string& folder, std::uint64_t count, std::initializer_list<Bytes> sizes,
             Bytes big)
      : path_(folder + "/batchflow-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder in " + folder);
    std::vector<std::uint64_t> order(count);
    for (std::uint64_t i = 0; i < count; ++i) order[i] = i;
    Random random(1);
    shuffle<std::uint64_t>(order, random);
    for (const Bytes size : sizes) {
      const std::string below = std::to_string(size);
      std::filesystem::create_directory(path_ + "/" + below);
      for (std::uint64_t i = 0; i < count; ++i) {
        names_[size].push_back(below + "/" + std::to_string(i));
      }
      for (const std::uint64_t i : order) write(names_[size][i], size);
    }
    write("big", big);
    root_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::syncfs(root_);
  }
  ~BenchFiles() {
    if (root_ >= 0) ::close(root_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BenchFiles(const BenchFiles&) = delete;
  BenchFiles& operator=(const BenchFiles&) = delete;

  int root() const { return root_; }
  const std::string& path() const { return path_; }
  const std::string& name(Bytes size, std::uint64_t number) const {
    return names_.at(size)[number];
  }

 private:
  // Noise, because a drive may store zeros in another way.
  void write(const std::string& name, Bytes bytes) {
    const int fd = ::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (Bytes at = 0; at < bytes;) {
      for (std::uint64_t& word : noise_) word = random_.draw();
      const Bytes some = std::min<Bytes>(bytes - at, sizeof noise_);
      if (::write(fd, noise_, some) != static_cast<ssize_t>(some)) {
        ::close(fd);
        throw std::runtime_error("cannot write " + path_ + "/" + name);
      }
      at += some;
    }
    ::close(fd);
  }

  std::string path_;
  int root_ = -1;
  std::map<Bytes, std::vector<std::string>> names_;
  Random random_{2};
  std::uint64_t noise_[1 << 14];
};

}  // namespace batchflow::bench
