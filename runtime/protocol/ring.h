// A ring of records in shared memory, with one writer and one reader. Neither trusts the other.
//
// A ring is a page of words that the writer owns (tail, futex), a page that the reader owns (head,
// whether it sleeps), and the records. In the ring from the service to a job, the records and the
// writer's page are in a sealed memory file that the job maps read-only; the reader's page is in
// the job's own file. In the ring from the job it is the other way round. Each side keeps its own
// count in private memory. A number that the other side wrote may be anything, so it is read once
// and checked. If it cannot be right, the ring is broken for good.
//
// A record has at most kRecordMost bytes and never wraps around: a writer skips what is left at the
// end. Before each record is a word with its size. All begin at multiples of 8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace batchflow::protocol {

struct RingWriterPage {  // written by the writer alone
  std::atomic<std::uint64_t> tail;
  std::atomic<std::uint32_t> wakes;  // the futex on which a sleeping reader waits
};
struct RingReaderPage {  // written by the reader alone
  std::atomic<std::uint64_t> head;
  std::atomic<std::uint32_t> asleep;  // 0: awake; else the number of this sleep
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kRecordMost = 32768;
inline constexpr std::size_t kRingLeast = 4 * kRecordMost;

// The parts of a ring in this process's memory, which are zeros at first. `records` begins at a
// multiple of 8; its size is a power of two, at least kRingLeast. The parts that the other side
// writes may be mapped read-only.
struct RingMemory {
  RingWriterPage* writer = nullptr;
  RingReaderPage* reader = nullptr;
  std::span<std::byte> records;
};

class RingWriter {
 public:
  explicit RingWriter(RingMemory memory);
  // False when there is no room, or the ring is broken. REQUIRES: record.size() <= kRecordMost
  bool write(std::span<const std::byte> record);
  // Whether there is room for `bytes`, in which the words before records count, too.
  bool has_room_for(std::uint64_t bytes) { return !broken_ && has_room(bytes); }
  // Makes readable what was written. True: the reader sleeps, and the caller must wake it. It is
  // true once for each sleep, since a reader that was woken reads all there is.
  bool publish();
  void wake();  // by futex
  bool broken() const { return broken_; }

 private:
  bool has_room(std::uint64_t bytes);

  RingMemory memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t head_ = 0;   // as last read
  std::uint32_t woken_ = 0;  // the last sleep for which publish() answered true
  bool broken_ = false;      // the other side has written nonsense
};

class RingReader {
 public:
  explicit RingReader(RingMemory memory);
  // A copy of the next record, in the reader's own memory. None when no record is there now.
  std::optional<std::span<const std::byte>> next();
  // Gives the next records to `take` as long as it answers true, but at most `most` of them, since
  // a writer may be as fast as its reader. False: `take` answered false, or the ring is broken.
  template <class Take>
  bool read(std::size_t most, Take take) {
    for (; most > 0; --most) {
      const auto record = next();
      if (!record) break;
      if (!take(*record)) return false;
    }
    return !broken_;
  }
  void free_read();  // the room of all records that were read is the writer's again
  // Announces that the reader is about to sleep. False: there is a record to read.
  bool fall_asleep();
  void awake();
  // Waits on the futex, at most so long. False: no record came (the time is over, or the reader was
  // woken for something else). For readers that do not poll a descriptor.
  bool wait(std::uint64_t nanoseconds);
  bool broken() const { return broken_; }

 private:
  bool look_for_more();
  bool is_something_there() const;

  RingMemory memory_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;  // as last read, and checked
  std::uint32_t sleeps_ = 0;
  bool broken_ = false;  // the other side has written nonsense
  alignas(16) std::byte copy_[kRecordMost];
};

// Waiting on a word of memory that two processes share.
//
// Waits until futex_wake() is called on the word, `word` is not `value`, the time is over, or a
// signal comes. The word may be in memory that is mapped read-only.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::uint64_t nanoseconds);
// A signal handler may call it.
void futex_wake(const std::atomic<std::uint32_t>* word);

}  // namespace batchflow::protocol
