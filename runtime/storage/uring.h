// An io_uring, with its tables of files and of buffers, on the thread that made it.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <vector>

#include "runtime/storage/huge_pages.h"
#include "runtime/storage/staging.h"

namespace batchflow::storage {

class Uring {
 public:
  Uring() = default;
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Answers 0, or errno where the kernel or a sandbox refuses an io_uring.
  // REQUIRES: called on the thread that will use it
  int open(unsigned entries, unsigned files, const Staging& staging);

  io_uring& get() { return ring_; }
  // Whether there is a table of files. If not, every open file has a descriptor.
  bool has_files() const { return has_files_; }
  bool has_buffers() const { return buffers_error_ == 0; }
  int buffers_error() const { return buffers_error_; }

  // Makes room for `entries` that must be submitted together. Submits earlier ones if needed.
  void reserve(unsigned entries);
  void submit();
  void submit_and_wait();

  // Prepares a read or a write. `file` is a descriptor or, if `in_table`, an index in the table of
  // files. Memory that is registered is used as such.
  void prepare_read(io_uring_sqe* sqe, int file, bool in_table, std::byte* to, std::size_t length,
                    std::uint64_t offset);
  void prepare_write(io_uring_sqe* sqe, int file, const std::byte* from, std::size_t length,
                     std::uint64_t offset);

 private:
  void submit_and_wait_for(unsigned completions);
  int open_ring(unsigned entries);
  // Staging memory is registered in parts, each when it is first used. Registering makes the kernel
  // allocate the memory; for all of it, that takes as long as a job's first batch.
  bool reserve_buffers();
  bool register_part(std::size_t number);
  // The number of the registered part that holds all of the memory; -1: there is none.
  int buffer_of(const std::byte* memory, std::size_t length);

  io_uring ring_{};
  bool is_open_ = false;    // the kernel has made it
  bool has_files_ = false;  // the kernel has a table of files for it
  int buffers_error_ = 0;
  Bytes part_ = 0;
  std::vector<bool> is_registered_;
  HugePages huge_pages_;
  const Staging* staging_ = nullptr;
};

}  // namespace batchflow::storage
