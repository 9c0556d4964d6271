// What one read asks of the ring, and what follows from each answer.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/failpoint/failpoint.h"
#include "runtime/storage/open_beneath.h"
#include "runtime/storage/ring_reader.h"

namespace batchflow {
namespace {

constexpr bool is_transient(int answer) {
  return answer == -EINTR || answer == -EAGAIN;
}

// The kernel copies them when entries are submitted.
open_how how_to_open(bool direct, bool follows_links) {
  open_how how = how_beneath(direct, follows_links);
  how.flags |= O_CLOEXEC;
  return how;
}
open_how how_in_table = how_beneath(true);  // where O_CLOEXEC is refused
open_how how_direct = how_to_open(true, true);
open_how how_buffered = how_to_open(false, true);
open_how how_guarded = how_to_open(true, false);
open_how how_guarded_buffered = how_to_open(false, false);

open_how* how_to_open(const ReadPiece& piece, bool direct) {
  if (piece.guard) return direct ? &how_guarded : &how_guarded_buffered;
  return direct ? &how_direct : &how_buffered;
}

}  // namespace

io_uring_sqe* RingReader::entry() {
  ring_.reserve(1);
  return io_uring_get_sqe(&ring_.get());
}

void RingReader::prepare_wake() {
  io_uring_sqe* sqe = entry();
  io_uring_prep_read(sqe, wake_, &wakes_, sizeof wakes_, 0);
  mark(sqe, 0, Step::wake);
}

// A read that fails or is short would break an ordinary link, and leave the file open.
void RingReader::prepare_chain(unsigned slot) {
  Slot& read = slots_[slot];
  if (ending_) return finish(slot, ECANCELED);
  const ReadPiece& piece = read.progress.piece();
  const Progress::Next next = read.progress.next();
  ring_.reserve(3);
  read.chain_left = 3;

  io_uring_sqe* sqe = entry();
  io_uring_prep_openat2_direct(sqe, piece.root, piece.path, &how_in_table, slot);
  sqe->flags |= IOSQE_IO_LINK;
  mark(sqe, slot, Step::chain_open);

  sqe = entry();
  ring_.prepare_read(sqe, static_cast<int>(slot), true, next.to, next.length, next.offset);
  sqe->flags |= IOSQE_IO_HARDLINK;
  mark(sqe, slot, Step::chain_read);

  sqe = entry();
  io_uring_prep_close_direct(sqe, slot);
  mark(sqe, slot, Step::chain_close);
}

void RingReader::prepare_open(unsigned slot) {
  Slot& read = slots_[slot];
  if (ending_) return finish(slot, ECANCELED);
  const ReadPiece& piece = read.progress.piece();
  io_uring_sqe* sqe = entry();
  io_uring_prep_openat2(sqe, piece.root, piece.path, how_to_open(piece, read.direct));
  mark(sqe, slot, Step::open);
}

void RingReader::prepare_open_large(unsigned place) {
  const LargeFiles::File& file = (*large_)[place];
  const ReadPiece& piece = slots_[file.waiting.front()].progress.piece();
  io_uring_sqe* sqe = entry();
  io_uring_prep_openat2(sqe, piece.root, piece.path, how_to_open(piece, file.direct));
  mark(sqe, place, Step::open_large);
}

void RingReader::prepare_read(unsigned slot) {
  const Slot& read = slots_[slot];
  const ReadPiece& piece = read.progress.piece();
  const Progress::Next next = read.progress.next();
  io_uring_sqe* sqe = entry();
  if (piece.write) {
    ring_.prepare_write(sqe, piece.fd, next.to, next.length, next.offset);
  } else if (piece.fd >= 0) {
    ring_.prepare_read(sqe, piece.fd, false, next.to, next.length, next.offset);
  } else if (read.large != kNoPlace) {
    const LargeFiles::File& file = (*large_)[read.large];
    ring_.prepare_read(sqe, file.file, file.in_table, next.to, next.length, next.offset);
  } else {
    ring_.prepare_read(sqe, read.fd, false, next.to, next.length, next.offset);
  }
  mark(sqe, slot, Step::read);
}

void RingReader::chain_ended(unsigned slot) {
  Slot& read = slots_[slot];
  if (--read.chain_left > 0) return;
  if (BF_FAILPOINT("storage.chain.refused")) read.chain_read = -EINVAL;
  const int answer =
      read.chain_opened < 0 ? read.chain_opened : moved_as(read.progress.piece(), read.chain_read);
  if (answer >= 0) {
    return read.progress.advance(static_cast<Bytes>(answer)) ? finish(slot, 0)
                                                             : prepare_chain(slot);
  }
  // A descriptor will tell whether it is the file or the way it was read.
  read.chain_refused =
      read.chain_opened == -EINVAL || read.chain_read == -EINVAL || read.chain_read == -EAGAIN;
  if (read.chain_refused || is_transient(answer)) return prepare_open(slot);
  finish(slot, -answer);
}

void RingReader::opened(unsigned slot, int answer) {
  Slot& read = slots_[slot];
  if (answer >= 0) read.fd = answer;
  answer = opened_as(answer);
  if (answer == -EINVAL && read.direct) {
    read.direct = false;
    return prepare_open(slot);
  }
  if (is_transient(answer) && --read.tries > 0) return prepare_open(slot);
  if (answer < 0) return finish(slot, -answer);
  if (const int error = admit(read.fd, read.direct, read.progress.piece().guard); error != 0)
    return finish(slot, error);
  prepare_read(slot);
}

void RingReader::opened_large(unsigned place, int answer) {
  LargeFiles::File& file = (*large_)[place];
  const int fd = answer;
  answer = opened_as(answer);
  if (answer == -EINVAL && file.direct) {
    file.direct = false;
    return prepare_open_large(place);
  }
  if (is_transient(answer) && ++file.tries < kTries) return prepare_open_large(place);
  const ReadGuard* const guard = slots_[file.waiting.front()].progress.piece().guard;
  int error = answer < 0 ? -answer : admit(fd, file.direct, guard);
  if (ending_ && error == 0) error = ECANCELED;
  const std::vector<unsigned> waiting = std::move(file.waiting);
  if (error == 0) {
    large_->opened(place, fd);
    if (options_.direct && !file.direct) buffered_roots_.insert(file.root);
  } else {
    if (fd >= 0) ::close(fd);
    large_->forget(place);
  }
  for (const unsigned slot : waiting) {
    if (error == 0) {
      prepare_read(slot);
    } else {
      finish(slot, error);
    }
  }
}

void RingReader::has_read(unsigned slot, int answer) {
  Slot& read = slots_[slot];
  const bool was_direct = read.large == kNoPlace ? read.direct : (*large_)[read.large].direct;
  const ReadPiece& piece = read.progress.piece();
  answer = moved_as(piece, answer);
  if (answer >= 0) {
    return read.progress.advance(static_cast<Bytes>(answer)) ? finish(slot, 0) : prepare_read(slot);
  }
  if (answer == -EINVAL && was_direct && piece.fd < 0) {
    let_go(read);
    read.direct = false;
    return prepare_open(slot);
  }
  if (is_transient(answer) && --read.tries > 0) return prepare_read(slot);
  finish(slot, -answer);
}

// A file that could be read in one way alone says so of its root. One that cannot be read at all
// (no regular file, an offset that no file has) says nothing.
void RingReader::learn(const Slot& read) {
  if (read.progress.piece().fd >= 0) return;
  const int root = read.progress.piece().root;
  if (read.chain_refused) unchained_roots_.insert(root);
  if (options_.direct && !read.direct) buffered_roots_.insert(root);
}

void RingReader::let_go(Slot& read) {
  if (read.fd >= 0) ::close(std::exchange(read.fd, -1));
  if (read.large != kNoPlace) large_->release(std::exchange(read.large, kNoPlace));
}

void RingReader::finish(unsigned slot, int error) {
  Slot& read = slots_[slot];
  if (error == 0) learn(read);
  let_go(read);
  results_.push_back(read.progress.result(error));
  free_.push_back(slot);
}

}  // namespace batchflow
