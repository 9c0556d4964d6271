#include "runtime/objects/range_reader.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace batchflow::objects {

RangeReader::RangeReader(unsigned reads, Done done) : reads_(reads) {
  state_->done = std::move(done);
}

RangeReader::~RangeReader() {
  constexpr auto kEndWithin = std::chrono::seconds(5);
  state_->ending = true;
  {
    std::unique_lock lock(state_->mutex);
    state_->changed.notify_all();
    state_->changed.wait_for(lock, kEndWithin, [this] { return state_->running == 0; });
  }
  const std::lock_guard lock(state_->calling);
  state_->done = nullptr;
}

void RangeReader::submit(std::span<const RangePiece> pieces) {
  std::deque<RangePiece> unread;
  {
    const std::lock_guard lock(state_->mutex);
    for (const RangePiece& piece : pieces) state_->queue.push_back(piece);
    while (state_->running < reads_ && state_->asleep < state_->queue.size()) {
      try {
        std::thread([state = state_] { work(state); }).detach();
      } catch (const std::system_error&) {
        // Fewer threads do it, if there is one.
        if (state_->running == 0) unread.swap(state_->queue);
        break;
      }
      ++state_->running;
      ++state_->asleep;  // until it has taken a piece
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(pieces.size(), state_->asleep); ++i)
      state_->changed.notify_one();
  }
  const std::lock_guard calling(state_->calling);
  for (const RangePiece& piece : unread)
    state_->done({piece.tag, EAGAIN, 0, "no thread to read it with"});
}

void RangeReader::work(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "bf-range");
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ending || !state->queue.empty(); });
    if (state->queue.empty()) break;
    const RangePiece piece = std::move(state->queue.front());
    state->queue.pop_front();
    --state->asleep;
    lock.unlock();
    RangeResult result{piece.tag, ECANCELED, 0, "stopped"};
    if (!state->ending) {
      try {
        RangeAnswer answer =
            piece.store->read(piece.path, piece.mark, piece.offset, piece.to, state->ending);
        result = {piece.tag, answer.error, answer.bytes, std::move(answer.problem)};
      } catch (const std::exception& error) {  // no memory
        result = {piece.tag, ENOMEM, 0, error.what()};
      }
    }
    {
      const std::lock_guard calling(state->calling);
      if (state->done) state->done(std::move(result));
    }
    lock.lock();
    ++state->asleep;
  }
  --state->asleep;
  --state->running;
  state->changed.notify_all();
}

}  // namespace batchflow::objects
