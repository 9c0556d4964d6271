// An io_uring with the tables that reads use, on the thread that made it.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <vector>

#include "runtime/storage/staging.h"

namespace batchflow {

class Ring {
 public:
  Ring() = default;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // 0 or errno: the kernel, or who guards it, refuses a ring. On the thread that will use it.
  int open(unsigned entries, unsigned files, const Staging& staging);

  io_uring& get() { return ring_; }
  // Whether there is a table of files; else every file has a descriptor.
  bool has_files() const { return has_files_; }
  bool has_buffers() const { return buffers_error_ == 0; }
  int buffers_error() const { return buffers_error_; }

  // Room for so many entries that are not to be parted, submitting what is there if need be.
  void reserve(unsigned entries);
  void submit();
  void submit_and_wait();

  // A read of a descriptor, or of the file at `file` in the table, to registered memory where it
  // is; or a write from there.
  void prepare_read(io_uring_sqe* sqe, int file, bool in_table, std::byte* to, std::size_t length,
                    std::uint64_t offset);
  void prepare_write(io_uring_sqe* sqe, int file, const std::byte* from, std::size_t length,
                     std::uint64_t offset);

 private:
  void submit_and_wait_for(unsigned completions);
  int open_ring(unsigned entries);
  // Staging memory is registered in parts, and each when it is first used: that makes the kernel
  // find the memory, which for all of it takes as long as a job's first batch.
  bool reserve_buffers();
  bool register_part(std::size_t number);
  // The number of the registered part that holds all of it; -1: none does.
  int buffer_of(const std::byte* memory, std::size_t length);

  io_uring ring_{};
  bool is_open_ = false;
  bool has_files_ = false;
  int buffers_error_ = 0;
  Bytes part_ = 0;
  std::vector<bool> is_registered_;
  const Staging* staging_ = nullptr;
};

}  // namespace batchflow
