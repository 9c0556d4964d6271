// The thread: orders in, results out.
#include "runtime/storage/ring_reader.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow {
namespace {

constexpr unsigned kSpareFiles = 64;  // large ones open beyond those being read
constexpr unsigned kSubmitEvery = 4;  // reads; waiting for all of a pass costs up to a fifth
constexpr unsigned kEntries = 3;      // of one read, at most
constexpr std::size_t kReapAtOnce = 64;

}  // namespace

RingReader::RingReader(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                       std::shared_ptr<Delivery> delivery)
    : options_(options),
      staging_(std::move(staging)),
      delivery_(std::move(delivery)),
      slots_(options.depth),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  for (unsigned slot = options.depth; slot > 0; --slot) free_.push_back(slot - 1);
}

RingReader::~RingReader() {
  if (wake_ >= 0) ::close(wake_);
}

Started RingReader::start(const std::shared_ptr<RingReader>& self) {
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

int RingReader::open_ring() {
  if (wake_ < 0) return EMFILE;
  const unsigned large = options_.depth + kSpareFiles;
  const int error = ring_.open(options_.depth * kEntries + 1, options_.depth + large, *staging_);
  if (error == 0) large_.emplace(ring_, options_.depth, large);
  return error;
}

void RingReader::submit(std::span<const ReadPiece> pieces) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    orders_.insert(orders_.end(), pieces.begin(), pieces.end());
    // From within Done the thread looks for orders before it sleeps.
    if (std::this_thread::get_id() != thread_) wake = std::exchange(asleep_, false);
  }
  if (wake) ::eventfd_write(wake_, 1);
}

void RingReader::close_root(int root) {
  ReadPiece order;
  order.root = root;
  submit({&order, 1});
}

void RingReader::end() {
  ending_ = true;
  ::eventfd_write(wake_, 1);
  threads_.end_within(options_.end_within);
}

void RingReader::run() {
  prepare_wake();
  for (;;) {
    const bool ending = take_orders();
    if (ending) {
      for (const ReadPiece& piece : queue_) {
        results_.push_back(Progress(piece).result(ECANCELED));
      }
      queue_.clear();
    }
    start_waiting();
    if (!results_.empty()) {
      delivery_->add(results_);
      results_.clear();
      continue;  // Done may have brought orders
    }
    if (ending && free_.size() == slots_.size()) return;
    unsubmitted_ = 0;
    ring_.submit_and_wait();
    reap();
  }
}

// Whether the engine is to end. The thread is woken for orders that come after this.
bool RingReader::take_orders() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(orders_);
    asleep_ = true;
  }
  for (const ReadPiece& order : taken_) {
    if (order.path != nullptr || order.fd >= 0) {
      queue_.push_back(order);
      continue;
    }
    large_->close_root(order.root);
    unchained_roots_.erase(order.root);
    buffered_roots_.erase(order.root);
  }
  taken_.clear();
  return ending_;
}

void RingReader::start_waiting() {
  while (!queue_.empty() && !free_.empty()) {
    const unsigned slot = free_.back();
    free_.pop_back();
    slots_[slot] = Slot{.progress = Progress(queue_.front())};
    queue_.pop_front();
    start_read(slot);
    if (++unsubmitted_ >= kSubmitEvery) {
      unsubmitted_ = 0;
      ring_.submit();
    }
  }
}

void RingReader::start_read(unsigned slot) {
  Slot& read = slots_[slot];
  const ReadPiece& piece = read.progress.piece();
  read.direct = options_.direct && !buffered_roots_.contains(piece.root) &&
                !BF_FAILPOINT("storage.direct.refused");
  if (piece.fd >= 0) return prepare_read(slot);
  if (!piece.whole_file) {
    read.large = large_->acquire(piece, read.direct);
    LargeFiles::File& file = (*large_)[read.large];
    if (!file.is_opening) return prepare_read(slot);
    file.waiting.push_back(slot);
    if (std::exchange(file.is_new, false)) prepare_open_large(read.large);
  } else if (read.direct && !piece.guard && ring_.has_files() &&
             !unchained_roots_.contains(piece.root)) {
    prepare_chain(slot);
  } else {
    prepare_open(slot);
  }
}

void RingReader::reap() {
  if (BF_FAILPOINT("storage.ring.reap")) return;
  std::array<io_uring_cqe*, kReapAtOnce> found;
  struct Answer {
    std::uint64_t what;
    int answer;
  };
  std::array<Answer, kReapAtOnce> answers;
  const unsigned count = io_uring_peek_batch_cqe(&ring_.get(), found.data(), kReapAtOnce);
  for (unsigned i = 0; i < count; ++i) answers[i] = {found[i]->user_data, found[i]->res};
  io_uring_cq_advance(&ring_.get(), count);
  for (unsigned i = 0; i < count; ++i) {
    handle(static_cast<unsigned>(answers[i].what >> 8), static_cast<Step>(answers[i].what & 0xff),
           answers[i].answer);
    if (!ending_) start_waiting();
  }
}

void RingReader::handle(unsigned slot, Step step, int answer) {
  switch (step) {
    case Step::chain_open:
      slots_[slot].chain_opened = opened_as(answer);
      return chain_ended(slot);
    case Step::chain_read:
      slots_[slot].chain_read = answer;
      return chain_ended(slot);
    case Step::chain_close:
      return chain_ended(slot);
    case Step::open:
      return opened(slot, answer);
    case Step::read:
      return has_read(slot, answer);
    case Step::open_large:
      return opened_large(slot, answer);
    case Step::wake:
      return prepare_wake();
  }
}

Started start_ring(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                   std::shared_ptr<Delivery> delivery) {
  auto reader = std::make_shared<RingReader>(options, std::move(staging), std::move(delivery));
  return reader->start(reader);
}

}  // namespace batchflow
