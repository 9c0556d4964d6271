#include "runtime/storage/ring.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "core/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow {
namespace {

constexpr Bytes kBufferMost = Bytes{1} << 30;  // the kernel's bound for a registered buffer

}  // namespace

Ring::~Ring() {
  if (is_open_) io_uring_queue_exit(&ring_);
}

int Ring::open(unsigned entries, unsigned files, const Staging& staging) {
  staging_ = &staging;
  if (const int error = open_ring(entries); error != 0) return error;
  const std::vector<int> none(files, -1);
  has_files_ = io_uring_register_files(&ring_, none.data(), files) == 0 &&
               !BF_FAILPOINT("storage.ring.files");
  buffers_error_ = register_buffers();
  return 0;
}

int Ring::open_ring(unsigned entries) {
  if (BF_FAILPOINT("storage.ring.setup")) return EPERM;
  // What newer kernels do better, then what all do.
  constexpr unsigned kFlags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
                                 IORING_SETUP_COOP_TASKRUN, 0};
  int answer = -EINVAL;
  for (const unsigned flags : kFlags) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP;
    answer = io_uring_queue_init_params(entries, &ring_, &params);
    if (answer != -EINVAL) break;
  }
  if (answer < 0) return -answer;
  is_open_ = true;
  // A sandbox may allow a ring to be made and not to be used.
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  answer = io_uring_submit_and_wait(&ring_, 1);
  if (answer < 0) return -answer;
  io_uring_cqe* cqe = nullptr;
  answer = io_uring_peek_cqe(&ring_, &cqe);
  if (answer < 0) return -answer;
  io_uring_cqe_seen(&ring_, cqe);
  return 0;
}

int Ring::register_buffers() {
  if (BF_FAILPOINT("storage.ring.buffers")) return ENOMEM;
  std::vector<iovec> buffers;
  for (Bytes at = 0; at < staging_->bytes(); at += kBufferMost) {
    buffers.push_back({staging_->begin() + at, std::min(kBufferMost, staging_->bytes() - at)});
  }
  return -io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
}

void Ring::reserve(unsigned entries) {
  while (io_uring_sq_space_left(&ring_) < entries) submit();
}

void Ring::submit() {
  submit_and_wait_for(0);
}

void Ring::submit_and_wait() {
  submit_and_wait_for(1);
}

void Ring::submit_and_wait_for(unsigned completions) {
  const int answer =
      BF_FAILPOINT("storage.ring.submit") ? -EAGAIN : io_uring_submit_and_wait(&ring_, completions);
  if (answer >= 0 || answer == -EINTR) return;
  // The kernel has no memory, or results wait to be taken: both pass. Nothing else does.
  BF_CHECK_MSG(answer == -EAGAIN || answer == -EBUSY || answer == -ENOMEM, "io_uring_enter failed");
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int Ring::buffer_of(const std::byte* memory, std::size_t length) const {
  if (!has_buffers() || length == 0 || !staging_->contains(memory, length)) return -1;
  const auto at = static_cast<Bytes>(memory - staging_->begin());
  const Bytes buffer = at / kBufferMost;
  return buffer == (at + length - 1) / kBufferMost ? static_cast<int>(buffer) : -1;
}

void Ring::prepare_read(io_uring_sqe* sqe, int file, bool in_table, std::byte* to,
                        std::size_t length, std::uint64_t offset) const {
  const int buffer = buffer_of(to, length);
  if (buffer >= 0) {
    io_uring_prep_read_fixed(sqe, file, to, static_cast<unsigned>(length), offset, buffer);
  } else {
    io_uring_prep_read(sqe, file, to, static_cast<unsigned>(length), offset);
  }
  if (in_table) sqe->flags |= IOSQE_FIXED_FILE;
}

void Ring::prepare_write(io_uring_sqe* sqe, int file, const std::byte* from, std::size_t length,
                         std::uint64_t offset) const {
  const int buffer = buffer_of(from, length);
  if (buffer >= 0) {
    io_uring_prep_write_fixed(sqe, file, from, static_cast<unsigned>(length), offset, buffer);
  } else {
    io_uring_prep_write(sqe, file, from, static_cast<unsigned>(length), offset);
  }
}

}  // namespace batchflow
