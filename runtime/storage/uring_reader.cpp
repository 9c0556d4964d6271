// The reader's thread: it takes requests, and gives results.
#include "runtime/storage/uring_reader.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::storage {
namespace {

constexpr unsigned kSpareFiles = 64;  // large files that stay open beyond those being read
constexpr unsigned kSubmitEvery = 4;  // reads; to submit all at the end costs up to a fifth
constexpr unsigned kEntries = 3;      // for one read, at most
constexpr std::size_t kAnswersAtOnce = 64;

}  // namespace

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
  read.direct = options_.direct && !buffered_roots_.contains(piece.root) &&
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

}  // namespace batchflow::storage
