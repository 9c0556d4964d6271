// Files with known contents in a folder of their own, and an engine with its results.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/storage/read_engine.h"
#include "tests/temporary_folder.h"

namespace batchflow::test {

// The byte at offset `at` of a file, by the file's number.
inline std::byte content(std::uint64_t file, std::uint64_t at) {
  return static_cast<std::byte>(hash(file, at / 8) >> (at % 8 * 8));
}

// Whether `bytes` from `offset` of the file are at `memory`; the hash once for eight bytes.
inline bool holds(std::uint64_t file, std::uint64_t offset, Bytes bytes, const std::byte* memory) {
  for (Bytes i = 0; i < bytes;) {
    const std::uint64_t word = hash(file, (offset + i) / 8);
    do {
      if (memory[i] != static_cast<std::byte>(word >> ((offset + i) % 8 * 8))) return false;
      ++i;
    } while (i < bytes && (offset + i) % 8 != 0);
  }
  return true;
}

class Folder : public TemporaryFolder {
 public:
  Folder() : root_(::open(path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  ~Folder() { ::close(root_); }

  int root() const { return root_; }

  void write(const std::string& name, std::uint64_t file, Bytes bytes) const {
    std::string text(bytes + 8, 0);
    for (Bytes at = 0; at < bytes; at += 8) {
      const std::uint64_t word = hash(file, at / 8);
      std::memcpy(text.data() + at, &word, 8);
    }
    const int fd = ::open((*this / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const ssize_t written = ::write(fd, text.data(), bytes);
    ::close(fd);
    if (written != static_cast<ssize_t>(bytes)) throw std::runtime_error("cannot write " + name);
  }
  // O_DIRECT would wait until each file is on the drive; it is faster to wait once for all.
  void settle() const {
    const int fd = ::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::syncfs(fd);
    ::close(fd);
  }

 private:
  int root_;
};

class Gathered {
 public:
  explicit Gathered(const storage::ReadEngineOptions& options)
      : engine_(std::make_unique<storage::ReadEngine>(
            options, [this](std::span<const storage::ReadResult> results) {
              const std::lock_guard lock(mutex_);
              for (const storage::ReadResult& result : results) {
                ++times_[result.tag];
                results_[result.tag] = result;
              }
              changed_.notify_all();
            })) {}

  storage::ReadEngine& engine() { return *engine_; }
  void destroy() { engine_.reset(); }

  // Waits until there are so many results in all.
  bool wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(100),
                             [&] { return results_.size() >= count; });
  }
  std::map<std::uint64_t, storage::ReadResult> results() {
    const std::lock_guard lock(mutex_);
    return results_;
  }
  bool each_once() {
    const std::lock_guard lock(mutex_);
    for (const auto& [tag, times] : times_) {
      if (times != 1) return false;
    }
    return true;
  }

  // One read, alone; its memory is copied out.
  struct Read {
    storage::ReadResult result;
    std::vector<std::byte> bytes;
  };
  Read read(int root, const char* path, std::uint64_t offset, Bytes bytes, bool whole = true,
            std::uint64_t file = 1, const storage::ReadGuard* guard = nullptr) {
    storage::ReadPiece piece{
        .root = root, .path = path, .guard = guard, .file = file, .whole_file = whole};
    piece.offset = offset;
    piece.bytes = bytes;
    piece.to = engine_->stage(storage::room_for(offset, bytes));
    piece.tag = next_tag_++;
    REQUIRE(piece.to != nullptr);
    engine_->submit({&piece, 1});
    {
      std::unique_lock lock(mutex_);
      REQUIRE(changed_.wait_for(lock, std::chrono::seconds(100),
                                [&] { return results_.contains(piece.tag); }));
    }
    Read read;
    read.result = results()[piece.tag];
    const std::byte* begin = piece.to + storage::lead(offset);
    read.bytes.assign(begin, begin + read.result.bytes);
    engine_->unstage(piece.to);
    return read;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, storage::ReadResult> results_;
  std::map<std::uint64_t, int> times_;
  std::uint64_t next_tag_ = 1'000'000'000;
  std::unique_ptr<storage::ReadEngine> engine_;  // last: its results come until it is gone
};

inline storage::ReadEngineOptions small(const std::string& engine) {
  storage::ReadEngineOptions options;
  options.engine = engine;
  options.staging = Bytes{16} << 20;
  return options;
}

// The pool, and the ring where the kernel lets us have one.
inline std::vector<std::string> engines() {
  std::vector<std::string> names{"pread"};
  try {
    const storage::ReadEngine made(small("io_uring"), [](auto) {});
    names.push_back("io_uring");
  } catch (const std::runtime_error&) {
  }
  return names;
}

// Off again at the end of the test.
struct Failpoints {
  explicit Failpoints(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Failpoints() { failpoint::configure_failpoints(""); }
  static failpoint::FailpointCount count(std::string_view name) {
    for (const failpoint::FailpointCount& one : failpoint::failpoint_counts()) {
      if (one.name == name) return one;
    }
    return {};
  }
  static std::uint64_t acted(std::string_view name) { return count(name).acted; }
  static std::uint64_t reached(std::string_view name) { return count(name).reached; }
};

}  // namespace batchflow::test
