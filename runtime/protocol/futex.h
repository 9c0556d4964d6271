// Waiting on a word of memory that two processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace batchflow {

// Until somebody wakes, `word` is not `value`, the time is over, or a signal comes. The word may
// lie in memory that is mapped read-only.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::uint64_t nanoseconds);
// Safe in a signal handler.
void futex_wake(const std::atomic<std::uint32_t>* word);

}  // namespace batchflow
