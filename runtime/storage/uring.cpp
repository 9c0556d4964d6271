#include "runtime/storage/uring.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::storage {
namespace {

constexpr Bytes kPart = Bytes{16} << 20;
constexpr Bytes kPartsMost = 1 << 14;  // the kernel's bound

}  // namespace

Uring::~Uring() {
  if (is_open_) io_uring_queue_exit(&ring_);
}

int Uring::open(unsigned entries, unsigned files, const Staging& staging) {
  staging_ = &staging;
  if (const int error = open_ring(entries); error != 0) return error;
  const std::vector<int> none(files, -1);
  has_files_ = io_uring_register_files(&ring_, none.data(), files) == 0 &&
               !BF_FAILPOINT("storage.ring.files");
  // Registers the first part, which shows whether the kernel allows it.
  if (reserve_buffers()) register_part(0);
  return 0;
}

int Uring::open_ring(unsigned entries) {
  if (BF_FAILPOINT("storage.ring.setup")) return EPERM;
  // First the flags of newer kernels, which are faster, then those that all kernels know.
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
  // A sandbox may allow that an io_uring is made, and forbid its use.
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  answer = io_uring_submit_and_wait(&ring_, 1);
  if (answer < 0) return -answer;
  io_uring_cqe* cqe = nullptr;
  answer = io_uring_peek_cqe(&ring_, &cqe);
  if (answer < 0) return -answer;
  io_uring_cqe_seen(&ring_, cqe);
  return 0;
}

bool Uring::reserve_buffers() {
  part_ = kPart * ((staging_->bytes() - 1) / (kPart * kPartsMost) + 1);
  is_registered_.resize((staging_->bytes() - 1) / part_ + 1);
  buffers_error_ =
      BF_FAILPOINT("storage.ring.buffers")
          ? ENOMEM
          : -io_uring_register_buffers_sparse(&ring_, static_cast<unsigned>(is_registered_.size()));
  return has_buffers();
}

bool Uring::register_part(std::size_t number) {
  const Bytes at = number * part_;
  const iovec part{staging_->begin() + at, std::min(part_, staging_->bytes() - at)};
  huge_pages_.populate(staging_->begin() + at, part.iov_len);  // else the kernel would
  const __u64 untagged = 0;
  const int answer = io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(number),
                                                          &part, &untagged, 1);
  if (answer < 0) buffers_error_ = -answer;
  is_registered_[number] = answer >= 0;
  return is_registered_[number];
}

void Uring::reserve(unsigned entries) {
  while (io_uring_sq_space_left(&ring_) < entries) submit();
}

void Uring::submit() {
  submit_and_wait_for(0);
}

void Uring::submit_and_wait() {
  submit_and_wait_for(1);
}

void Uring::submit_and_wait_for(unsigned completions) {
  const int answer =
      BF_FAILPOINT("storage.ring.submit") ? -EAGAIN : io_uring_submit_and_wait(&ring_, completions);
  if (answer >= 0 || answer == -EINTR) return;
  // The kernel has no memory, or results wait to be taken. Both pass; other errors do not.
  BF_CHECK_MSG(answer == -EAGAIN || answer == -EBUSY || answer == -ENOMEM, "io_uring_enter failed");
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int Uring::buffer_of(const std::byte* memory, std::size_t length) {
  if (length == 0 || !staging_->contains(memory, length)) return -1;
  const auto at = static_cast<Bytes>(memory - staging_->begin());
  const std::size_t number = at / part_;
  if (number != (at + length - 1) / part_) return -1;
  // After the kernel has refused a part, no further parts are registered.
  if (!is_registered_[number] && !(has_buffers() && register_part(number))) return -1;
  return static_cast<int>(number);
}

void Uring::prepare_read(io_uring_sqe* sqe, int file, bool in_table, std::byte* to,
                         std::size_t length, std::uint64_t offset) {
  const int buffer = buffer_of(to, length);
  if (buffer >= 0) {
    io_uring_prep_read_fixed(sqe, file, to, static_cast<unsigned>(length), offset, buffer);
  } else {
    io_uring_prep_read(sqe, file, to, static_cast<unsigned>(length), offset);
  }
  if (in_table) sqe->flags |= IOSQE_FIXED_FILE;
}

void Uring::prepare_write(io_uring_sqe* sqe, int file, const std::byte* from, std::size_t length,
                          std::uint64_t offset) {
  const int buffer = buffer_of(from, length);
  if (buffer >= 0) {
    io_uring_prep_write_fixed(sqe, file, from, static_cast<unsigned>(length), offset, buffer);
  } else {
    io_uring_prep_write(sqe, file, from, static_cast<unsigned>(length), offset);
  }
}

}  // namespace batchflow::storage
