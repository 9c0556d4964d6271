// The entries that one read needs, and what follows from each answer.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/failpoint/failpoint.h"
#include "runtime/storage/open_beneath.h"
#include "runtime/storage/uring_reader.h"

namespace batchflow::storage {
namespace {

constexpr bool is_transient(int answer) {
  return answer == -EINTR || answer == -EAGAIN;
}

// The kernel copies these when entries are submitted.
open_how how_to_open(bool direct, bool follows_links) {
  open_how how = how_beneath(direct, follows_links);
  how.flags |= O_CLOEXEC;
  return how;
}
open_how how_in_table = how_beneath(true);  // for the table of files, where O_CLOEXEC is refused
open_how how_direct = how_to_open(true, true);
open_how how_buffered = how_to_open(false, true);
open_how how_guarded = how_to_open(true, false);
open_how how_guarded_buffered = how_to_open(false, false);

open_how* how_to_open(const ReadPiece& piece, bool direct) {
  if (piece.guard) return direct ? &how_guarded : &how_guarded_buffered;
  return direct ? &how_direct : &how_buffered;
}

}  // namespace

io_uring_sqe* UringReader::next_entry() {
  ring_.reserve(1);
  return io_uring_get_sqe(&ring_.get());
}

void UringReader::prepare_wake() {
  io_uring_sqe* sqe = next_entry();
  io_uring_prep_read(sqe, wake_, &wakes_, sizeof wakes_, 0);
  mark(sqe, 0, Entry::wake);
}

// The read is hard-linked: a read that fails or is short would break an ordinary link, and the file
// would stay open.
void UringReader::prepare_chain(unsigned index) {
  ReadInFlight& read = reads_[index];
  if (ending_) return finish(index, ECANCELED);
  const ReadPiece& piece = read.progress.piece();
  const Progress::Next next = read.progress.next();
  ring_.reserve(3);
  read.chain_left = 3;

  io_uring_sqe* sqe = next_entry();
  io_uring_prep_openat2_direct(sqe, piece.root, piece.path, &how_in_table, index);
  sqe->flags |= IOSQE_IO_LINK;
  mark(sqe, index, Entry::chain_open);

  sqe = next_entry();
  ring_.prepare_read(sqe, static_cast<int>(index), true, next.to, next.length, next.offset);
  sqe->flags |= IOSQE_IO_HARDLINK;
  mark(sqe, index, Entry::chain_read);

  sqe = next_entry();
  io_uring_prep_close_direct(sqe, index);
  mark(sqe, index, Entry::chain_close);
}

void UringReader::prepare_open(unsigned index) {
  ReadInFlight& read = reads_[index];
  if (ending_) return finish(index, ECANCELED);
  const ReadPiece& piece = read.progress.piece();
  io_uring_sqe* sqe = next_entry();
  io_uring_prep_openat2(sqe, piece.root, piece.path, how_to_open(piece, read.direct));
  mark(sqe, index, Entry::open);
}

void UringReader::prepare_open_large(unsigned large_file) {
  const LargeFiles::File& file = (*large_)[large_file];
  const ReadPiece& piece = reads_[file.waiting.front()].progress.piece();
  io_uring_sqe* sqe = next_entry();
  io_uring_prep_openat2(sqe, piece.root, piece.path, how_to_open(piece, file.direct));
  mark(sqe, large_file, Entry::open_large);
}

void UringReader::prepare_read(unsigned index) {
  const ReadInFlight& read = reads_[index];
  const ReadPiece& piece = read.progress.piece();
  const Progress::Next next = read.progress.next();
  io_uring_sqe* sqe = next_entry();
  if (piece.write) {
    ring_.prepare_write(sqe, piece.fd, next.to, next.length, next.offset);
  } else if (piece.fd >= 0) {
    ring_.prepare_read(sqe, piece.fd, false, next.to, next.length, next.offset);
  } else if (read.large != kNoFile) {
    const LargeFiles::File& file = (*large_)[read.large];
    ring_.prepare_read(sqe, file.file, file.in_table, next.to, next.length, next.offset);
  } else {
    ring_.prepare_read(sqe, read.fd, false, next.to, next.length, next.offset);
  }
  mark(sqe, index, Entry::read);
}

void UringReader::chain_answered(unsigned index) {
  ReadInFlight& read = reads_[index];
  if (--read.chain_left > 0) return;
  if (BF_FAILPOINT("storage.chain.refused")) read.chain_read = -EINVAL;
  const int answer =
      read.chain_opened < 0 ? read.chain_opened : moved_as(read.progress.piece(), read.chain_read);
  if (answer >= 0) {
    return read.progress.advance(static_cast<Bytes>(answer)) ? finish(index, 0)
                                                             : prepare_chain(index);
  }
  // Reading again by a descriptor shows whether the file cannot be read, or only not by a chain.
  read.chain_refused =
      read.chain_opened == -EINVAL || read.chain_read == -EINVAL || read.chain_read == -EAGAIN;
  if (read.chain_refused || is_transient(answer)) return prepare_open(index);
  finish(index, -answer);
}

void UringReader::opened(unsigned index, int answer) {
  ReadInFlight& read = reads_[index];
  if (answer >= 0) read.fd = answer;
  answer = opened_as(answer);
  if (answer == -EINVAL && read.direct) {
    read.direct = false;
    return prepare_open(index);
  }
  if (is_transient(answer) && --read.tries > 0) return prepare_open(index);
  if (answer < 0) return finish(index, -answer);
  if (const int error = admit(read.fd, read.direct, read.progress.piece().guard); error != 0)
    return finish(index, error);
  prepare_read(index);
}

void UringReader::opened_large(unsigned large_file, int answer) {
  LargeFiles::File& file = (*large_)[large_file];
  const int fd = answer;
  answer = opened_as(answer);
  if (answer == -EINVAL && file.direct) {
    file.direct = false;
    return prepare_open_large(large_file);
  }
  if (is_transient(answer) && ++file.tries < kTries) return prepare_open_large(large_file);
  const ReadGuard* const guard = reads_[file.waiting.front()].progress.piece().guard;
  int error = answer < 0 ? -answer : admit(fd, file.direct, guard);
  if (ending_ && error == 0) error = ECANCELED;
  const std::vector<unsigned> waiting = std::move(file.waiting);
  if (error == 0) {
    large_->opened(large_file, fd);
    if (options_.direct && !file.direct) buffered_roots_.insert(file.root);
  } else {
    if (fd >= 0) ::close(fd);
    large_->forget(large_file);
  }
  for (const unsigned index : waiting) {
    if (error == 0) {
      prepare_read(index);
    } else {
      finish(index, error);
    }
  }
}

void UringReader::has_read(unsigned index, int answer) {
  ReadInFlight& read = reads_[index];
  const bool was_direct = read.large == kNoFile ? read.direct : (*large_)[read.large].direct;
  const ReadPiece& piece = read.progress.piece();
  answer = moved_as(piece, answer);
  if (answer >= 0) {
    return read.progress.advance(static_cast<Bytes>(answer)) ? finish(index, 0)
                                                             : prepare_read(index);
  }
  if (answer == -EINVAL && was_direct && piece.fd < 0) {
    release_file(read);
    read.direct = false;
    return prepare_open(index);
  }
  if (is_transient(answer) && --read.tries > 0) return prepare_read(index);
  finish(index, -answer);
}

// After a read has succeeded, this remembers for its root what was refused before: chains,
// O_DIRECT. A file that cannot be read at all (it is not regular, or has no such offset) shows
// nothing about its root.
void UringReader::remember_refusals(const ReadInFlight& read) {
  if (read.progress.piece().fd >= 0) return;
  const int root = read.progress.piece().root;
  if (read.chain_refused) unchained_roots_.insert(root);
  if (options_.direct && !read.direct) buffered_roots_.insert(root);
}

void UringReader::release_file(ReadInFlight& read) {
  if (read.fd >= 0) ::close(std::exchange(read.fd, -1));
  if (read.large != kNoFile) large_->release(std::exchange(read.large, kNoFile));
}

void UringReader::finish(unsigned index, int error) {
  ReadInFlight& read = reads_[index];
  if (error == 0) remember_refusals(read);
  release_file(read);
  results_.push_back(read.progress.result(error));
  free_.push_back(index);
}

}  // namespace batchflow::storage
