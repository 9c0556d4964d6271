#include "runtime/storage/uring_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "runtime/failpoint/failpoint.h"
#include "runtime/storage/open_beneath.h"

namespace batchflow::storage {
namespace {

constexpr unsigned kSpareFiles = 64;  // large files that stay open beyond those being read
constexpr unsigned kSubmitEvery = 4;  // reads; to submit all at the end costs up to a fifth
constexpr unsigned kEntries = 3;      // for one read, at most
constexpr std::size_t kAnswersAtOnce = 64;

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

// ----------------------------------------------- the thread: it takes requests, gives results ----

UringReader::UringReader(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                         std::shared_ptr<ResultQueue> done_queue)
    : options_(options),
      staging_(std::move(staging)),
      done_queue_(std::move(done_queue)),
      reads_(options.depth),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  for (unsigned index = options.depth; index > 0; --index) free_.push_back(index - 1);
}

UringReader::~UringReader() {
  if (wake_ >= 0) ::close(wake_);
}

Started UringReader::start(const std::shared_ptr<UringReader>& self) {
  std::promise<int> opened;
  std::future<int> error = opened.get_future();
  threads_.start([self, &opened] {
    self->thread_ = std::this_thread::get_id();
    const int failed = self->open_ring();
    opened.set_value(failed);
    if (failed == 0) self->run();
  });
  if (const int refused = error.get(); refused != 0) {
    threads_.end_within(options_.end_within);
    return {.reader = nullptr, .description = std::strerror(refused)};
  }
  std::string text = fmt::format("io_uring: {} reads at once", options_.depth);
  if (!ring_.has_files()) text += ", no table of files";
  if (!ring_.has_buffers()) {
    text += fmt::format(", unregistered memory ({}; see ulimit -l)",
                        std::strerror(ring_.buffers_error()));
  }
  return {.reader = self, .description = text};
}

int UringReader::open_ring() {
  if (wake_ < 0) return EMFILE;
  const unsigned large = options_.depth + kSpareFiles;
  const int error = ring_.open(options_.depth * kEntries + 1, options_.depth + large, *staging_);
  if (error == 0) large_.emplace(ring_, options_.depth, large);
  return error;
}

void UringReader::submit(std::span<const ReadPiece> pieces) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    requests_.insert(requests_.end(), pieces.begin(), pieces.end());
    // The reader's own thread, within Done, looks for requests before it sleeps.
    if (std::this_thread::get_id() != thread_) wake = std::exchange(asleep_, false);
  }
  if (wake) ::eventfd_write(wake_, 1);
}

void UringReader::end() {
  ending_ = true;
  ::eventfd_write(wake_, 1);
  threads_.end_within(options_.end_within);
}

void UringReader::run() {
  prepare_wake();
  for (;;) {
    const bool ending = take_requests();
    if (ending) {
      for (const ReadPiece& piece : queue_) {
        results_.push_back(Progress(piece).result(ECANCELED));
      }
      queue_.clear();
    }
    start_waiting();
    if (!results_.empty()) {
      done_queue_->add(results_);
      results_.clear();
      continue;  // Done may have submitted more
    }
    if (ending && free_.size() == reads_.size()) return;
    unsubmitted_ = 0;
    ring_.submit_and_wait();
    take_answers();
  }
}

// Answers whether the engine is to end. Requests that come after this wake the thread.
bool UringReader::take_requests() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(requests_);
    asleep_ = true;
  }
  queue_.insert(queue_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  return ending_;
}

void UringReader::start_waiting() {
  while (!queue_.empty() && !free_.empty()) {
    const unsigned index = free_.back();
    free_.pop_back();
    reads_[index] = ReadInFlight{.progress = Progress(queue_.front())};
    queue_.pop_front();
    start_read(index);
    if (++unsubmitted_ >= kSubmitEvery) {
      unsubmitted_ = 0;
      ring_.submit();
    }
  }
}

void UringReader::start_read(unsigned index) {
  ReadInFlight& read = reads_[index];
  const ReadPiece& piece = read.progress.piece();
  read.direct = options_.direct && !piece.cached && !buffered_roots_.contains(piece.root) &&
                !BF_FAILPOINT("storage.direct.refused");
  if (piece.fd >= 0) return prepare_read(index);
  if (!piece.whole_file) {
    read.large = large_->acquire(piece, read.direct);
    LargeFiles::File& file = (*large_)[read.large];
    if (!file.is_opening) return prepare_read(index);
    file.waiting.push_back(index);
    if (std::exchange(file.is_new, false)) prepare_open_large(read.large);
  } else if (read.direct && !piece.guard && ring_.has_files() &&
             !unchained_roots_.contains(piece.root)) {
    prepare_chain(index);
  } else {
    prepare_open(index);
  }
}

void UringReader::take_answers() {
  if (BF_FAILPOINT("storage.ring.reap")) return;
  std::array<io_uring_cqe*, kAnswersAtOnce> found;
  struct Answer {
    std::uint64_t what;
    int answer;
  };
  std::array<Answer, kAnswersAtOnce> answers;
  const unsigned count = io_uring_peek_batch_cqe(&ring_.get(), found.data(), kAnswersAtOnce);
  for (unsigned i = 0; i < count; ++i) answers[i] = {found[i]->user_data, found[i]->res};
  io_uring_cq_advance(&ring_.get(), count);
  for (unsigned i = 0; i < count; ++i) {
    handle(static_cast<unsigned>(answers[i].what >> 8), static_cast<Entry>(answers[i].what & 0xff),
           answers[i].answer);
    if (!ending_) start_waiting();
  }
}

void UringReader::handle(unsigned index, Entry entry, int answer) {
  switch (entry) {
    case Entry::chain_open:
      reads_[index].chain_opened = opened_as(answer);
      return chain_answered(index);
    case Entry::chain_read:
      reads_[index].chain_read = answer;
      return chain_answered(index);
    case Entry::chain_close:
      return chain_answered(index);
    case Entry::open:
      return opened(index, answer);
    case Entry::read:
      return has_read(index, answer);
    case Entry::open_large:
      return opened_large(index, answer);
    case Entry::wake:
      return prepare_wake();
  }
}

Started start_uring(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                    std::shared_ptr<ResultQueue> done_queue) {
  auto reader = std::make_shared<UringReader>(options, std::move(staging), std::move(done_queue));
  return reader->start(reader);
}

// --------------------------- the entries that a read needs, and what follows from each answer ----

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
