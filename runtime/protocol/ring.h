// A ring of records in shared memory, one writer and one reader, neither of which trusts the other.
//
// A ring is a page of words that the writer owns (tail, futex) and a page that the reader owns
// (head, whether it sleeps), and the records between them. Down, from the service to a job, the
// records and the writer's page lie in a sealed memory file the job maps read-only; the reader's
// page lies in the job's own file. Up, it is the other way round. Either side keeps its own count
// in private memory and treats what the other wrote as a number that may be anything: read once,
// checked, and if it cannot be right the ring is broken, for good.
//
// A record is at most kRecordMost bytes and never wraps: a writer skips what is left at the end.
// Before each stands a word with its size, and all begin at multiples of 8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace batchflow {

struct RingWriterPage {  // written by the writer alone
  std::atomic<std::uint64_t> tail;
  std::atomic<std::uint32_t> wakes;  // the futex a sleeping reader waits on
};
struct RingReaderPage {  // written by the reader alone
  std::atomic<std::uint64_t> head;
  std::atomic<std::uint32_t> asleep;  // 0: no; else a number of this sleep
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kRecordMost = 32768;
inline constexpr std::size_t kRingLeast = 4 * kRecordMost;

// The parts of a ring in this process's memory: zeros at first. `records` begins at a multiple of 8
// and has a size that is a power of two, at least kRingLeast. What the other side writes may be
// mapped read-only.
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
  // Whether so many bytes could be written, what they cost beside themselves included.
  bool has_room_for(std::uint64_t bytes) { return !broken_ && has_room(bytes); }
  // What was written becomes readable; true: the reader sleeps and is to be woken. Once a sleep:
  // who has been woken reads all there is.
  bool publish();
  void wake();  // by futex
  bool broken() const { return broken_; }

 private:
  bool has_room(std::uint64_t bytes);

  RingMemory memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t head_ = 0;   // as last read
  std::uint32_t woken_ = 0;  // the last sleep the reader was to be woken from
  bool broken_ = false;
};

class RingReader {
 public:
  explicit RingReader(RingMemory memory);
  // A copy of the next record, in memory of the reader's; empty when there is none now.
  std::optional<std::span<const std::byte>> next();
  // Gives the next records to `take`, as long as it answers true, and `most` of them: a writer may
  // be as fast as its reader. False: it answered false, or the ring is broken.
  template <class Take>
  bool read(std::size_t most, Take take) {
    for (; most > 0; --most) {
      const auto record = next();
      if (!record) break;
      if (!take(*record)) return false;
    }
    return !broken_;
  }
  void free_read();  // the writer may use again what has been read
  // Says that the reader is about to sleep. False: there is something to read.
  bool fall_asleep();
  void awake();
  // Waits on the futex, at most so long; false: nothing came (the time is over, or it was woken for
  // something else). For readers that do not poll a descriptor.
  bool wait(std::uint64_t nanoseconds);
  bool broken() const { return broken_; }

 private:
  bool look_for_more();
  bool is_something_there() const;

  RingMemory memory_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;  // as last read, and checked
  std::uint32_t sleeps_ = 0;
  bool broken_ = false;
  alignas(16) std::byte copy_[kRecordMost];
};

}  // namespace batchflow
