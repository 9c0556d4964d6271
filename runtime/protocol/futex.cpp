#include "runtime/protocol/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace batchflow::protocol {

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
