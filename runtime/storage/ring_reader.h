// Reads by io_uring, on one thread that owns the ring.
//
// A small file takes three linked entries: open into the ring's table, read, close. Whatever that
// is refused for (a file system without O_DIRECT, a FIFO in the place of a file) is looked at
// again with a descriptor, which can be asked what it is. Large files stay open.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "runtime/storage/large_files.h"
#include "runtime/storage/reader.h"
#include "runtime/storage/ring.h"

namespace batchflow {

class RingReader final : public Reader {
 public:
  RingReader(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
             std::shared_ptr<Delivery> delivery);
  ~RingReader() override;

  Started start(const std::shared_ptr<RingReader>& self);
  void submit(std::span<const ReadPiece> pieces) override;
  void close_root(int root) override;
  void end() override;

 private:
  // What an entry of the ring was for; its user data is the slot and this.
  enum class Step : std::uint8_t {
    chain_open,
    chain_read,
    chain_close,
    open,
    read,
    open_large,
    wake
  };

  static constexpr unsigned kTries = 16;  // of EINTR and EAGAIN
  static constexpr unsigned kNoPlace = ~0U;
  // One read under way. Its number is also its file's place in the ring's table.
  struct Slot {
    Progress progress;
    bool direct = true;
    unsigned tries = kTries;
    unsigned chain_left = 0;  // results to come
    int chain_opened = 0;
    int chain_read = 0;
    bool chain_refused = false;
    int fd = -1;                // of its own
    unsigned large = kNoPlace;  // or the place of a large file
  };

  int open_ring();
  void run();
  bool take_orders();
  void start_waiting();
  void start_read(unsigned slot);
  void reap();
  void handle(unsigned slot, Step step, int answer);

  static void mark(io_uring_sqe* sqe, unsigned slot, Step step) {
    sqe->user_data = (std::uint64_t{slot} << 8) | static_cast<std::uint64_t>(step);
  }
  io_uring_sqe* entry();
  void prepare_wake();
  void prepare_chain(unsigned slot);
  void prepare_open(unsigned slot);
  void prepare_read(unsigned slot);
  void prepare_open_large(unsigned place);

  void chain_ended(unsigned slot);
  void opened(unsigned slot, int answer);
  void opened_large(unsigned place, int answer);
  void has_read(unsigned slot, int answer);
  void learn(const Slot& read);
  void let_go(Slot& read);
  void finish(unsigned slot, int error);

  const ReadEngineOptions options_;
  const std::shared_ptr<Staging> staging_;
  const std::shared_ptr<Delivery> delivery_;

  // The ring's thread alone.
  Ring ring_;
  std::optional<LargeFiles> large_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;
  std::deque<ReadPiece> queue_;
  std::vector<ReadPiece> taken_;
  std::vector<ReadResult> results_;
  unsigned unsubmitted_ = 0;                 // reads
  std::unordered_set<int> unchained_roots_;  // where linked entries do not work
  std::unordered_set<int> buffered_roots_;   // without O_DIRECT
  std::uint64_t wakes_ = 0;

  const int wake_;
  std::thread::id thread_;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::vector<ReadPiece> orders_;  // of no file: closes the root
  bool asleep_ = false;            // and wants to be woken

  Threads threads_;
};

}  // namespace batchflow
