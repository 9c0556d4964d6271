// Reads pieces of files into memory, and writes to the spill file, many at a time. It uses io_uring
// on a thread of its own. Where the kernel refuses io_uring, a pool of threads calls pread.
//
// A file is named by the dataset's root, which is an open folder, and a path below it. Links and
// `..` are followed as long as they stay below the root; if they leave it, the error is EXDEV.
// Where the kernel has no openat2, links (ELOOP) and `..` (EXDEV) are not followed at all. Only
// regular files are read: a folder gives EISDIR; a FIFO, socket or character device gives ENXIO,
// without waiting for its other end. (With O_DIRECT a block device behaves like a file, so it is
// read as one; only root can make one.)
//
// Reads go to staging memory, which belongs to the read engine and is aligned for O_DIRECT.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/types.h"

namespace batchflow::storage {

inline constexpr std::array<std::string_view, 3> kEngines{"auto", "io_uring", "pread"};

// Further conditions for a file, since its path may lead to another file than when it was indexed.
struct ReadGuard {
  bool is_public = false;                // all users of the machine may read it, else EACCES
  std::uint64_t device = 0, number = 0;  // it is this file, else ESTALE; number 0: any file
};

// One piece of one file. The file is below a root, or the caller keeps it open (`fd`); an open file
// may also be written, and its pieces get a checksum. With O_DIRECT whole sectors around the piece
// are read. So `to` must begin at a multiple of 4096 and have room_for(offset, bytes) bytes; the
// bytes of the piece are at `to + lead(offset)`.
struct ReadPiece {
  int fd = -1;         // of a file that is open; then `root`, `path` and `file` are not used
  bool write = false;  // writes from `to` to the open file
  int root = -1;       // the open root of the dataset
  const char* path = nullptr;
  const ReadGuard* guard = nullptr;  // if there is one, no link is followed
  std::uint64_t file = 0;   // a number that no other file of any root has; large files stay open
  bool whole_file = false;  // for small files, which are opened, read and closed at once
  bool cached = false;      // through the page cache, which has what was written lately
  std::uint64_t offset = 0;
  Bytes bytes = 0;
  bool is_last = false;  // `to` has room for one more byte; the result counts it if the file has it
  std::byte* to = nullptr;
  std::uint64_t tag = 0;  // comes back in the result
};
constexpr Bytes kSector = 4096;
constexpr Bytes lead(std::uint64_t offset) {
  return offset % kSector;
}
constexpr Bytes room_for(std::uint64_t offset, Bytes bytes) {
  return (lead(offset) + bytes + kSector - 1) / kSector * kSector;
}

struct ReadResult {
  std::uint64_t tag = 0;
  int error = 0;  // errno; 0: the read succeeded. After EIO and the like another try may succeed
  // How many bytes were read. A file that has shrunk has fewer than asked for. A piece with is_last
  // has one more where the file has grown.
  Bytes bytes = 0;
  Digest sum = 0;  // the checksum of these bytes, if the piece was of an open file
};
// Two runs of bytes that differ in one 64-bit word always have different checksums.
Digest checksum(const std::byte* bytes, Bytes count);

struct ReadEngineOptions {
  std::string engine = "auto";  // auto, io_uring, pread
  unsigned depth = 32;          // reads at once
  bool direct = true;           // use O_DIRECT where the file system has it
  unsigned threads = 8;         // of the pool
  Bytes staging = Bytes{256} << 20;
  // How long the destructor waits for reads under way. After that their thread and the staging
  // memory are left behind, since a read from a file server that hangs cannot be ended.
  std::chrono::milliseconds end_within{5000};
  friend bool operator==(const ReadEngineOptions&, const ReadEngineOptions&) = default;
};

class Reader;
class ResultQueue;
class Staging;

class ReadEngine {
 public:
  // Gets the results, many at a time, on a thread of the engine. It is never called twice at the
  // same time, and never after the engine's destructor. It must not wait for long; it may call
  // submit, stage and unstage.
  using Done = std::function<void(std::span<const ReadResult>)>;

  // Throws std::runtime_error where the engine that `options` names cannot be made.
  ReadEngine(const ReadEngineOptions& options, Done done);
  // Reads that were not begun end with ECANCELED.
  ~ReadEngine();
  ReadEngine(const ReadEngine&) = delete;
  ReadEngine& operator=(const ReadEngine&) = delete;

  // For people: `io_uring`, or `pread` with the reason.
  std::string_view description() const { return description_; }
  // Any thread may call it. It never blocks: reads beyond the depth wait in the engine.
  // REQUIRES: paths, roots and guards live until their pieces are done
  void submit(std::span<const ReadPiece> pieces);
  // Staging memory of at least `bytes`, aligned to 4096. Null when none is free now.
  // REQUIRES: bytes <= staging_bytes()
  std::byte* stage(Bytes bytes);
  void unstage(std::byte* memory);
  Bytes staging_bytes() const;

 private:
  std::shared_ptr<Staging> staging_;
  std::shared_ptr<ResultQueue> done_queue_;
  std::shared_ptr<Reader> reader_;
  std::string description_;
};

}  // namespace batchflow::storage
