#include "runtime/objects/range_reader.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace batchflow::objects {
namespace {

// From here on a request costs little beside its bytes.
constexpr Bytes kJoinedMost = 1 << 20;
// Between two ranges, as the head of a member of a tar: it is read and dropped.
constexpr Bytes kGapMost = 16 << 10;

bool can_join(const std::vector<RangePiece>& pieces, const RangePiece& next) {
  const RangePiece& first = pieces.front();
  const std::uint64_t end = pieces.back().offset + pieces.back().to.size();
  return next.store == first.store && std::string_view(next.path) == first.path &&
         next.mark == first.mark && next.offset >= end && next.offset - end <= kGapMost &&
         next.offset - first.offset + next.to.size() <= kJoinedMost;
}

RangeAnswer read_joined(const std::vector<RangePiece>& pieces, const std::atomic<bool>& stop) {
  const RangePiece& first = pieces.front();
  std::array<std::byte, kGapMost> dropped;
  try {
    std::vector<std::span<std::byte>> to;
    std::uint64_t at = first.offset;
    for (const RangePiece& piece : pieces) {
      if (piece.offset > at) to.push_back(std::span(dropped).first(piece.offset - at));
      to.push_back(piece.to);
      at = piece.offset + piece.to.size();
    }
    return first.store->read(first.path, first.mark, first.offset, to, stop);
  } catch (const std::exception& error) {  // no memory
    return {ENOMEM, error.what(), 0};
  }
}

}  // namespace

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
    std::vector<RangePiece> pieces;
    do {
      pieces.push_back(std::move(state->queue.front()));
      state->queue.pop_front();
    } while (!state->queue.empty() && can_join(pieces, state->queue.front()));
    --state->asleep;
    lock.unlock();
    RangeAnswer answer{ECANCELED, "stopped", 0};
    if (!state->ending) answer = read_joined(pieces, state->ending);
    {
      const std::lock_guard calling(state->calling);
      for (const RangePiece& piece : pieces)
        if (state->done)
          state->done(
              {piece.tag, answer.error, answer.error == 0 ? piece.to.size() : 0, answer.problem});
    }
    lock.lock();
    ++state->asleep;
  }
  --state->asleep;
  --state->running;
  state->changed.notify_all();
}

}  // namespace batchflow::objects
