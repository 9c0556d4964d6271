// Waiting on a word of memory that two processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace batchflow::protocol {

// Waits until futex_wake() is called on the word, `word` is not `value`, the time is over, or a
// signal comes. The word may be in memory that is mapped read-only.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::uint64_t nanoseconds);
// A signal handler may call it.
void futex_wake(const std::atomic<std::uint32_t>* word);

}  // namespace batchflow::protocol
