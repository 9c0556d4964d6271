// Reads ranges of objects into memory, many at a time, on threads of its own. It is to a store what
// storage::ReadEngine is to files.
//
// Ranges of one object are one request if they are submitted one after the other, and lie one
// behind the other. A request costs tens of milliseconds, and some stores want money for each.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/objects/object_store.h"

namespace batchflow::objects {

struct RangePiece {
  std::shared_ptr<ObjectStore> store;
  const char* path = nullptr;  // below the store's URL; it lives until the piece is done
  std::uint64_t mark = 0;
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  std::uint64_t tag = 0;  // comes back in the result
};

struct RangeResult {
  std::uint64_t tag = 0;
  int error = 0;
  Bytes bytes = 0;
  std::string problem;
};

class RangeReader {
 public:
  // Gets each result, on a thread of the reader. It is never called after the destructor.
  using Done = std::function<void(RangeResult)>;
  RangeReader(unsigned reads, Done done);
  // Reads that were not begun end with ECANCELED. Threads that do not end in time are left behind.
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  // Any thread may call it; it never blocks. Threads begin with the first pieces.
  void submit(std::span<const RangePiece> pieces);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<RangePiece> queue;
    std::atomic<bool> ending{false};
    unsigned running = 0, asleep = 0;
    std::mutex calling;  // Done
    Done done;
  };
  static void work(const std::shared_ptr<State>& state);

  const unsigned reads_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace batchflow::objects
