#include "runtime/storage/reader.h"

#include <pthread.h>

#include <cerrno>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::storage {

Progress::Next Progress::next() const {
  const Bytes left = room_for(piece_.offset, piece_.bytes + (piece_.is_last ? 1 : 0)) - at();
  return {.offset = piece_.offset - lead(piece_.offset) + at(),
          .to = piece_.to + at(),
          .length = std::min(left, kMostAtOnce)};
}

bool Progress::advance(Bytes moved) {
  const Bytes end = at() + moved;
  if (end <= got_) return true;  // the end of the file
  got_ = end;
  return got_ >= lead(piece_.offset) + piece_.bytes;
}

ReadResult Progress::result(int error) const {
  const Bytes before = lead(piece_.offset);
  const Bytes most = piece_.bytes + (piece_.is_last ? 1 : 0);
  const Bytes bytes = got_ <= before ? 0 : std::min(most, got_ - before);
  // The file took fewer bytes, and there was no error: the disk is full.
  if (error == 0 && piece_.write && bytes < piece_.bytes) error = ENOSPC;
  if (error != 0) return {.tag = piece_.tag, .error = error, .bytes = 0, .sum = 0};
  return {.tag = piece_.tag,
          .error = 0,
          .bytes = bytes,
          .sum = piece_.fd < 0 ? 0 : checksum(piece_.to + before, bytes)};
}

int opened_as(int answer) {
  return BF_FAILPOINT("storage.open.error") ? -EIO : answer;
}

int moved_as(const ReadPiece& piece, int answer) {
  if (piece.write) {
    if (BF_FAILPOINT("storage.spill.full")) return -ENOSPC;
    return BF_FAILPOINT("storage.spill.write") ? -EIO : answer;
  }
  if (piece.fd >= 0 && BF_FAILPOINT("storage.spill.read")) return -EIO;
  if (BF_FAILPOINT("storage.read.error")) return -EIO;
  if (BF_FAILPOINT("storage.read.again")) return -EAGAIN;
  if (answer <= 0) return answer;
  const auto whole = static_cast<Bytes>(answer);
  const Bytes shorter = BF_FAILPOINT_SHORT("storage.read.short", whole);
  // The kernel reads whole sectors, too.
  return shorter == whole || shorter < kSector ? answer
                                               : static_cast<int>(shorter / kSector * kSector);
}

void ResultQueue::add(std::span<const ReadResult> results) {
  std::unique_lock lock(mutex_);
  waiting_.insert(waiting_.end(), results.begin(), results.end());
  if (is_calling_) return;
  is_calling_ = true;
  while (!waiting_.empty() && !closed_) {
    passed_.swap(waiting_);
    lock.unlock();
    done_(passed_);
    lock.lock();
    passed_.clear();
  }
  is_calling_ = false;
  idle_.notify_all();
}

void ResultQueue::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  idle_.wait(lock, [&] { return !is_calling_; });
}

void Threads::start(std::function<void()> body) {
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->running;
  }
  threads_.emplace_back([state = state_, body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), "bf-read");
    body();
    body = nullptr;  // releases what it owns
    const std::lock_guard lock(state->mutex);
    --state->running;
    state->changed.notify_all();
  });
}

bool Threads::end_within(std::chrono::milliseconds bound) {
  std::unique_lock lock(state_->mutex);
  const bool ended = state_->changed.wait_for(lock, bound, [&] { return state_->running == 0; });
  lock.unlock();
  for (std::thread& thread : threads_) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  threads_.clear();
  return ended;
}

}  // namespace batchflow::storage
