// The large files that the reader by io_uring keeps open: a bounded number, in the kernel's table
// of files where there is one, else by descriptor.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/storage/read_engine.h"
#include "runtime/storage/uring.h"

namespace batchflow::storage {

class LargeFiles {
 public:
  struct File {
    std::uint64_t id = 0;
    int root = -1;
    int file = -1;           // a descriptor, or an index in the table of files
    bool in_table = false;   // `file` is an index
    bool direct = true;      // past the page cache
    bool is_new = true;      // the first read must open it
    bool is_opening = true;  // the reads in `waiting` wait until it is open
    unsigned tries = 0;
    unsigned users = 0;
    std::uint64_t used = 0;
    std::vector<unsigned> waiting;
  };

  // Entries [first, first + count) of the table of files are for these files.
  // REQUIRES: fewer than `count` files are in use at any time
  LargeFiles(Uring& ring, unsigned first, unsigned count)
      : ring_(ring), first_(first), files_(count) {}
  ~LargeFiles();

  // Answers the index of the file, which has one more user until release(). A new file replaces the
  // file that was not used for longest.
  unsigned acquire(const ReadPiece& piece, bool direct);
  void release(unsigned index) { --files_[index].users; }
  File& operator[](unsigned index) { return files_[index]; }
  void opened(unsigned index, int fd);
  // The file cannot be opened: the next read that needs it tries again.
  void forget(unsigned index);

 private:
  Uring& ring_;
  const unsigned first_;
  std::vector<File> files_;                              // root -1: an entry that was never used
  std::unordered_map<std::uint64_t, unsigned> indices_;  // by the file's id
  std::uint64_t now_ = 0;
};

}  // namespace batchflow::storage
