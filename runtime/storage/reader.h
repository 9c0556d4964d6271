// What both ways of reading share: how far a piece has come, and how results are told.
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

#include "core/types.h"
#include "runtime/storage/read_engine.h"
#include "runtime/storage/staging.h"

namespace batchflow {

// A piece being read, by whole sectors from the one its first byte lies in.
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
  // `moved` bytes came of next(), or went. Whether that is all: what was asked for, or the end of
  // the file.
  bool advance(Bytes moved);
  ReadResult result(int error) const;

 private:
  // Again from the beginning of the sector in which a read or write ended.
  Bytes at() const { return got_ / kSector * kSector; }

  ReadPiece piece_;
  Bytes got_ = 0;  // from the first sector's beginning
};

// What open, and reading or writing the piece, answered, or what failpoints make of it: >= 0, or
// -errno.
int opened_as(int answer);
int moved_as(const ReadPiece& piece, int answer);

// Calls Done, for one thread at a time: with everything that came while it was called before.
class Delivery {
 public:
  explicit Delivery(ReadEngine::Done done) : done_(std::move(done)) {}

  void add(std::span<const ReadResult> results);
  // After this Done is not called.
  void close();

 private:
  const ReadEngine::Done done_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<ReadResult> waiting_, handed_;
  bool delivering_ = false;
  bool closed_ = false;
};

// Threads that are waited for within a bound. Their bodies keep alive what they use.
class Threads {
 public:
  void start(std::function<void()> body);
  // False: some have not ended, and are left to themselves. At most once, after the last start.
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

// The ring or the pool. Its threads share it with the engine, so that those left behind have it.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual void submit(std::span<const ReadPiece> pieces) = 0;
  virtual void close_root(int root) = 0;
  // Begins nothing more, tells ECANCELED for what was not begun, and waits for the rest.
  virtual void end() = 0;
};

struct Started {
  std::shared_ptr<Reader> reader;  // null: it cannot be had
  std::string description;         // or why not
};
Started start_ring(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                   std::shared_ptr<Delivery> delivery);
Started start_pool(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                   std::shared_ptr<Delivery> delivery);

}  // namespace batchflow
