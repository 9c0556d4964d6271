// How the service and a process that decides in its place share memory: calls in one direction,
// and one answer at a time in the other. Each side can write only its own area.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace batchflow::child {

// Descriptors of the process, beside standard input, output and error.
inline constexpr int kPluginFile = 3;
inline constexpr int kCallsFile = 4;
inline constexpr int kAnswersFile = 5;
// One end of a pipe. The service has the other end, which closes when the service ends, or replaces
// itself by exec.
inline constexpr int kServiceLives = 6;

inline constexpr std::size_t kHeadBytes = 4096;
inline constexpr std::size_t kCallBytes = std::size_t{4} << 20;    // a ring
inline constexpr std::size_t kAnswerBytes = std::size_t{2} << 20;  // of one answer
// How much memory the process may take. A policy keeps some bytes for each item.
inline constexpr std::uint64_t kMemoryMost = std::uint64_t{2} << 30;

// In front of the ring. The service writes it.
struct CallsHead {
  std::atomic<std::uint64_t> written;  // bytes, ever
  std::atomic<std::uint32_t> wakes;    // the futex on which the process sleeps
  std::atomic<std::uint32_t> waits;    // 1: the service sleeps until there is an answer
};
// In front of the answer. The process writes it. The service looks at `sleeps` with each call, and
// `read` changes with each: they are in different cache lines.
struct AnswersHead {
  std::atomic<std::uint64_t> read;                  // bytes of calls that are done, ever
  alignas(64) std::atomic<std::uint32_t> sleeps;    // 1: it sleeps until there are calls
  alignas(64) std::atomic<std::uint32_t> answered;  // calls, ever; the service sleeps on it
  std::atomic<std::uint32_t> failed;                // 1: the answer is why it cannot go on
  std::atomic<std::uint32_t> bytes;
};

// In front of each call, at multiples of 8.
struct CallFrame {
  std::uint32_t bytes;    // behind it
  std::uint32_t answers;  // 1: it is answered. kWraps: the next frame is at the ring's beginning
};
inline constexpr std::uint32_t kWraps = 2;

constexpr std::size_t frame_bytes(std::size_t call_bytes) {
  return sizeof(CallFrame) + (call_bytes + 7) / 8 * 8;
}

}  // namespace batchflow::child
