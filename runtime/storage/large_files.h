// The files that a ring keeps open, a bounded number: in the ring's table where there is one, else
// by descriptor.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/storage/read_engine.h"
#include "runtime/storage/ring.h"

namespace batchflow {

class LargeFiles {
 public:
  struct File {
    std::uint64_t id = 0;
    int root = -1;
    int file = -1;  // a descriptor, or a place in the ring's table
    bool in_table = false;
    bool direct = true;
    bool is_new = true;      // somebody must open it
    bool is_opening = true;  // the reads in `waiting` wait for that
    unsigned tries = 0;
    unsigned users = 0;
    std::uint64_t used = 0;
    std::vector<unsigned> waiting;
  };

  // Places [first, first + count) of the ring's table are for these files. REQUIRES: there are
  // never `count` users
  LargeFiles(Ring& ring, unsigned first, unsigned count)
      : ring_(ring), first_(first), files_(count) {}
  ~LargeFiles();

  // A place of the file, for one user more; the file not used for longest gives way to a new one.
  unsigned acquire(const ReadPiece& piece, bool direct);
  void release(unsigned place) { --files_[place].users; }
  File& operator[](unsigned place) { return files_[place]; }
  void opened(unsigned place, int fd);
  // It cannot be opened: the next one who wants it tries anew.
  void forget(unsigned place);
  void close_root(int root);

 private:
  Ring& ring_;
  const unsigned first_;
  std::vector<File> files_;  // those never used have root -1
  std::unordered_map<std::uint64_t, unsigned> places_;
  std::uint64_t now_ = 0;
};

}  // namespace batchflow
