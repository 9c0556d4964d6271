// What the reader by io_uring and the pool share: the progress of a piece, the queue of results,
// and threads that may be left behind.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/types.h"
#include "runtime/storage/read_engine.h"
#include "runtime/storage/staging.h"

namespace batchflow::storage {

// A piece that is being read, in whole sectors, from the sector that holds its first byte.
class Progress {
 public:
  static constexpr Bytes kMostAtOnce = Bytes{1} << 30;  // a read's length has 31 bits

  explicit Progress(const ReadPiece& piece = {}) : piece_(piece) {}
  const ReadPiece& piece() const { return piece_; }

  struct Next {
    std::uint64_t offset = 0;
    std::byte* to = nullptr;
    Bytes length = 0;
  };
  Next next() const;
  // `moved` bytes of next() were read or written. Answers whether the piece is complete, also where
  // that is because the file has ended.
  bool advance(Bytes moved);
  ReadResult result(int error) const;

 private:
  // A further read or write begins at the sector in which the last one ended.
  Bytes at() const { return got_ / kSector * kSector; }

  ReadPiece piece_;
  Bytes got_ = 0;  // counted from the beginning of the first sector
};

// The answer of opening a file, and of reading or writing a piece, as failpoints change it: >= 0,
// or -errno.
int opened_as(int answer);
int moved_as(const ReadPiece& piece, int answer);

// Calls Done on one thread at a time. Results that come meanwhile wait, and are its next call.
class ResultQueue {
 public:
  explicit ResultQueue(ReadEngine::Done done) : done_(std::move(done)) {}

  void add(std::span<const ReadResult> results);
  // After this Done is not called.
  void close();

 private:
  const ReadEngine::Done done_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<ReadResult> waiting_;
  std::vector<ReadResult> passed_;  // to Done, at this moment
  bool is_calling_ = false;         // Done
  bool closed_ = false;             // Done is called no more
};

// Threads named `bf-read` that are waited for no longer than a bound. The functions they run own
// what they use.
class Threads {
 public:
  void start(std::function<void()> body);
  // False: some threads have not ended, and are left running. REQUIRES: called at most once, after
  // the last start()
  bool end_within(std::chrono::milliseconds bound);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t running = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::vector<std::thread> threads_;
};

// The reader by io_uring, or the pool. Its threads share the ownership of it with the engine, so
// that threads which are left behind can go on to use it.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual void submit(std::span<const ReadPiece> pieces) = 0;
  // Begins no more reads, ends those that were not begun with ECANCELED, and waits for the others.
  virtual void end() = 0;
};

struct Started {
  std::shared_ptr<Reader> reader;  // null: it cannot be used
  std::string description;         // or the reason why it cannot be used
};
Started start_uring(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                    std::shared_ptr<ResultQueue> done_queue);
Started start_pool(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                   std::shared_ptr<ResultQueue> done_queue);

}  // namespace batchflow::storage
