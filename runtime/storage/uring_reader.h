// Reads by io_uring, on one thread that owns it.
//
// A small file takes a chain of three linked entries: open into the table of files, read, close.
// Where the kernel refuses the chain (a file system without O_DIRECT, a FIFO instead of a file),
// the file is opened again with a descriptor, which can be checked. Large files stay open.
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
#include "runtime/storage/uring.h"

namespace batchflow::storage {

class UringReader final : public Reader {
 public:
  UringReader(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
              std::shared_ptr<ResultQueue> done_queue);
  ~UringReader() override;

  Started start(const std::shared_ptr<UringReader>& self);
  void submit(std::span<const ReadPiece> pieces) override;
  void end() override;

 private:
  // What an entry of the queue is for. Its user data holds this and the index of the read.
  enum class Entry : std::uint8_t {
    chain_open,
    chain_read,
    chain_close,
    open,
    read,
    open_large,
    wake
  };

  static constexpr unsigned kTries = 16;  // after EINTR and EAGAIN
  static constexpr unsigned kNoFile = ~0U;
  // One read under way. A small file has the same index in the table of files as its read has here.
  struct ReadInFlight {
    Progress progress;
    bool direct = true;  // past the page cache
    unsigned tries = kTries;
    unsigned chain_left = 0;  // results of the chain that are still to come
    int chain_opened = 0;
    int chain_read = 0;
    bool chain_refused = false;  // it is read by single requests
    int fd = -1;                 // of a file that is open only for this read
    unsigned large = kNoFile;    // or the index of a large file
  };

  int open_ring();
  void run();
  bool take_requests();
  void start_waiting();
  void start_read(unsigned index);
  void take_answers();
  void handle(unsigned index, Entry entry, int answer);

  static void mark(io_uring_sqe* sqe, unsigned index, Entry entry) {
    sqe->user_data = (std::uint64_t{index} << 8) | static_cast<std::uint64_t>(entry);
  }
  io_uring_sqe* next_entry();
  void prepare_wake();
  void prepare_chain(unsigned index);
  void prepare_open(unsigned index);
  void prepare_read(unsigned index);
  void prepare_open_large(unsigned large_file);

  void chain_answered(unsigned index);
  void opened(unsigned index, int answer);
  void opened_large(unsigned large_file, int answer);
  void has_read(unsigned index, int answer);
  void remember_refusals(const ReadInFlight& read);
  void release_file(ReadInFlight& read);
  void finish(unsigned index, int error);

  const ReadEngineOptions options_;
  const std::shared_ptr<Staging> staging_;
  const std::shared_ptr<ResultQueue> done_queue_;

  // For the reader's thread alone:
  Uring ring_;
  std::optional<LargeFiles> large_;
  std::vector<ReadInFlight> reads_;
  std::vector<unsigned> free_;  // indices in reads_
  std::deque<ReadPiece> queue_;
  std::vector<ReadPiece> taken_;
  std::vector<ReadResult> results_;
  unsigned unsubmitted_ = 0;                 // number of reads
  std::unordered_set<int> unchained_roots_;  // roots where chains do not work
  std::unordered_set<int> buffered_roots_;   // roots where O_DIRECT does not work
  std::uint64_t wakes_ = 0;

  const int wake_;
  std::thread::id thread_;
  std::atomic<bool> ending_{false};  // the thread is to end
  std::mutex mutex_;
  std::vector<ReadPiece> requests_;
  bool asleep_ = false;  // the thread must be woken

  Threads threads_;
};

}  // namespace batchflow::storage
