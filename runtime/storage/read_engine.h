// Reads pieces of files into memory, and writes to the spill file, many at a time: by io_uring on a
// thread of its own, or by a pool of threads that call pread where the kernel refuses a ring.
//
// A file is named by the dataset's root, an open directory, and a path below it. Links and `..` are
// followed as long as they stay below the root, else the error is EXDEV; where the kernel has no
// openat2 no link is followed (ELOOP) and no `..` (EXDEV). Only regular files are read: a directory
// is EISDIR, a FIFO, socket or character device ENXIO, without waiting for its other end. (A block
// device answers to O_DIRECT as a file does, so it is read as one; only root can make one.)
//
// Memory that reads land in is the engine's own: staging areas, handed out whole, aligned for
// O_DIRECT.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace batchflow {

// What a file must be beyond a regular one below its root: its path may lead elsewhere than when it
// was indexed.
struct ReadGuard {
  bool is_public = false;                // everybody on the machine may read it, else EACCES
  std::uint64_t device = 0, number = 0;  // this very file, else ESTALE; 0: any
};

// One piece of one file: below a root, or (`fd`) of a file that whoever asks keeps open, which may
// be written, too, and whose pieces come with a checksum. With O_DIRECT whole sectors are read
// around it: `to` begins at a multiple of 4096 and has `room` >= room_for(offset, bytes); the bytes
// asked for are at `to + lead(offset)`.
struct ReadPiece {
  int fd = -1;         // of an open file; then nothing is opened
  bool write = false;  // from `to`, to that file
  int root = -1;       // of the dataset
  const char* path = nullptr;
  const ReadGuard* guard = nullptr;  // then no link is followed, either
  std::uint64_t file = 0;   // names the file among all of all roots; large ones stay open by it
  bool whole_file = false;  // opened, read, closed at once: small files
  std::uint64_t offset = 0;
  Bytes bytes = 0;
  bool is_last = false;  // `to` has room for one more, which is told of if the file has it
  std::byte* to = nullptr;
  std::uint64_t tag = 0;  // for whoever asked
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
  int error = 0;  // errno; 0: all bytes are there. EIO and its like are worth another try
  // What was read; less than asked for at the end of a file that has shrunk, one more where the
  // last was to be and the file has grown.
  Bytes bytes = 0;
  Digest sum = 0;  // of these bytes, if the piece was of an open file
};
// What `sum` is. Of two runs of bytes that differ in one 64-bit word it always differs.
Digest checksum(const std::byte* bytes, Bytes count);

struct ReadEngineOptions {
  std::string engine = "auto";  // auto, io_uring, pread
  unsigned depth = 32;          // reads at once
  bool direct = true;           // O_DIRECT where the file system knows it
  unsigned threads = 8;         // of the pool
  Bytes staging = Bytes{256} << 20;
  // How long destruction waits for reads under way; then their thread and the staging memory are
  // left behind, since nothing ends a read from a file server that hangs.
  std::chrono::milliseconds end_within{5000};
  friend bool operator==(const ReadEngineOptions&, const ReadEngineOptions&) = default;
};

class ReadEngine {
 public:
  // Called on a thread of the engine's, with everything that came back at once; never twice at the
  // same time, and never after the engine's destruction. It must not wait for anything long, and
  // may call submit, stage and unstage.
  using Done = std::function<void(std::span<const ReadResult>)>;

  // Reads not begun end with ECANCELED.
  virtual ~ReadEngine() = default;
  // `io_uring`, or `pread` and why: for people.
  virtual std::string_view description() const = 0;
  // Paths, roots and guards live until their pieces are done. From any thread. Never blocks: what
  // is beyond the depth waits inside.
  virtual void submit(std::span<const ReadPiece> pieces) = 0;
  // Staging memory of at least so many bytes, aligned to 4096; null when there is none now.
  // REQUIRES: bytes <= staging_bytes()
  virtual std::byte* stage(Bytes bytes) = 0;
  virtual void unstage(std::byte* memory) = 0;
  virtual Bytes staging_bytes() const = 0;
  // Forgets open files of a root, whose number may then come back for another. REQUIRES: no read of
  // it is under way
  virtual void close_root(int root) = 0;
};

// Throws std::runtime_error when what `options` asks for by name is not to be had.
std::unique_ptr<ReadEngine> make_read_engine(const ReadEngineOptions& options,
                                             ReadEngine::Done done);

}  // namespace batchflow
