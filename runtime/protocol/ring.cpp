#include "runtime/protocol/ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "core/base/check.h"

namespace batchflow::protocol {
namespace {

constexpr std::uint64_t kWord = 8;
// Instead of a size: the bytes from here to the end of the memory are not used.
constexpr std::uint64_t kSkip = ~std::uint64_t{0};
constexpr std::uint64_t kTakenMost = kWord + kRecordMost;

std::uint64_t taken_by(std::size_t record) {
  return kWord + ((record + kWord - 1) & ~(kWord - 1));
}

// The word before a record is read or written only once: the other side may change it at any time.
std::atomic_ref<std::uint64_t> size_word(std::span<std::byte> records, std::uint64_t at) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(records.data() + at));
}

void check(const RingMemory& memory) {
  BF_CHECK(memory.writer != nullptr && memory.reader != nullptr);
  BF_CHECK(std::has_single_bit(memory.records.size()) && memory.records.size() >= kRingLeast);
  BF_CHECK(reinterpret_cast<std::uintptr_t>(memory.records.data()) % kWord == 0);
}

}  // namespace

// -------------------------------------------------------------------------------- writer ----

RingWriter::RingWriter(RingMemory memory) : memory_(memory) {
  check(memory_);
}

bool RingWriter::has_room(std::uint64_t bytes) {
  const std::uint64_t size = memory_.records.size();
  if (tail_ + bytes - head_ <= size) return true;
  const std::uint64_t head = memory_.reader->head.load(std::memory_order_acquire);
  if (head < head_ || head > published_ || head % kWord != 0) {
    broken_ = true;
    return false;
  }
  head_ = head;
  return tail_ + bytes - head_ <= size;
}

bool RingWriter::write(std::span<const std::byte> record) {
  BF_CHECK(record.size() <= kRecordMost);
  if (broken_) return false;
  const std::uint64_t size = memory_.records.size();
  const std::uint64_t taken = taken_by(record.size());
  std::uint64_t at = tail_ & (size - 1);
  const std::uint64_t skipped = size - at < taken ? size - at : 0;
  if (!has_room(skipped + taken)) return false;
  if (skipped != 0) {
    size_word(memory_.records, at).store(kSkip, std::memory_order_relaxed);
    at = 0;
  }
  size_word(memory_.records, at).store(record.size(), std::memory_order_relaxed);
  if (!record.empty()) {
    std::memcpy(memory_.records.data() + at + kWord, record.data(), record.size());
  }
  tail_ += skipped + taken;
  return true;
}

// The store and the load are in one total order with those of fall_asleep(). So either the reader
// sees the record, or the writer sees that the reader sleeps.
bool RingWriter::publish() {
  if (tail_ == published_) return false;
  memory_.writer->tail.store(tail_, std::memory_order_seq_cst);
  published_ = tail_;
  const std::uint32_t asleep = memory_.reader->asleep.load(std::memory_order_seq_cst);
  if (asleep == 0 || asleep == woken_) return false;
  woken_ = asleep;
  return true;
}

void RingWriter::wake() {
  memory_.writer->wakes.fetch_add(1, std::memory_order_release);
  futex_wake(&memory_.writer->wakes);
}

// -------------------------------------------------------------------------------- reader ----

RingReader::RingReader(RingMemory memory) : memory_(memory) {
  check(memory_);
}

bool RingReader::look_for_more() {
  const std::uint64_t tail = memory_.writer->tail.load(std::memory_order_acquire);
  if (tail < tail_ || tail - head_ > memory_.records.size() || tail % kWord != 0) {
    broken_ = true;
    return false;
  }
  tail_ = tail;
  return tail_ != head_;
}

std::optional<std::span<const std::byte>> RingReader::next() {
  const std::uint64_t size = memory_.records.size();
  while (!broken_ && (tail_ != head_ || look_for_more())) {
    const std::uint64_t at = head_ & (size - 1);
    const std::uint64_t bytes = size_word(memory_.records, at).load(std::memory_order_relaxed);
    const std::uint64_t until_end = size - at;
    // A writer skips only what is too short for a record, so never twice in turn.
    if (bytes == kSkip && until_end < kTakenMost && until_end < tail_ - head_) {
      head_ += until_end;
      continue;
    }
    if (bytes > kRecordMost || taken_by(bytes) > until_end || taken_by(bytes) > tail_ - head_) {
      broken_ = true;
      break;
    }
    std::memcpy(copy_, memory_.records.data() + at + kWord, bytes);
    head_ += taken_by(bytes);
    return std::span<const std::byte>(copy_, bytes);
  }
  return std::nullopt;
}

void RingReader::free_read() {
  memory_.reader->head.store(head_, std::memory_order_release);
}

bool RingReader::is_something_there() const {
  return broken_ || memory_.writer->tail.load(std::memory_order_seq_cst) != head_;
}

bool RingReader::fall_asleep() {
  if (++sleeps_ == 0) ++sleeps_;
  memory_.reader->asleep.store(sleeps_, std::memory_order_seq_cst);
  if (!is_something_there()) return true;
  awake();
  return false;
}

void RingReader::awake() {
  memory_.reader->asleep.store(0, std::memory_order_seq_cst);
}

bool RingReader::wait(std::uint64_t nanoseconds) {
  // Often the next record comes within microseconds, and a sleep costs as much.
  constexpr int kLooks = 200;
  for (int i = 0; i < kLooks; ++i) {
    if (is_something_there()) return true;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  const std::uint32_t wakes = memory_.writer->wakes.load(std::memory_order_acquire);
  if (!fall_asleep()) return true;
  futex_wait(memory_.writer->wakes, wakes, nanoseconds);
  awake();
  return is_something_there();
}

// FUTEX_PRIVATE_FLAG is not set, since the other side is another process.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::uint64_t nanoseconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
  time.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>* word) {
  const int before = errno;
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  errno = before;
}

}  // namespace batchflow::protocol
