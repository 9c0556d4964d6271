// For LD_PRELOAD: a machine that has no memory now and then. BATCHFLOW_NO_MEMORY=THREAD:EVERY fails
// each so many-th piece that a thread of that name asks for; of all threads, *. The first pieces
// are there, so that the program begins; as long as BATCHFLOW_NO_MEMORY_FROM, a file, is there,
// they are not.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* before, size_t bytes);
}

namespace {

// Every so many pieces the file is looked for.
constexpr std::uint64_t kLookEvery = 256;
std::atomic<std::uint64_t> asked{0};
std::atomic<bool> is_short{false};

bool is_meant(const char* thread, std::size_t length) {
  if (length == 1 && *thread == '*') return true;
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  return std::strlen(name) == length && std::memcmp(name, thread, length) == 0;
}

bool fails() {
  static const char* const plan = getenv("BATCHFLOW_NO_MEMORY");
  static const char* const from = getenv("BATCHFLOW_NO_MEMORY_FROM");
  if (!plan || !from) return false;
  const char* const colon = std::strchr(plan, ':');
  if (!colon) return false;
  const std::uint64_t number = asked.fetch_add(1, std::memory_order_relaxed);
  if (number % kLookEvery == 0) is_short = access(from, F_OK) == 0;
  if (!is_short.load(std::memory_order_relaxed)) return false;
  if (!is_meant(plan, static_cast<std::size_t>(colon - plan))) return false;
  static const std::uint64_t every = std::strtoull(colon + 1, nullptr, 10);
  static std::atomic<std::uint64_t> of_these{0};
  if (every == 0 || of_these.fetch_add(1, std::memory_order_relaxed) % every != every - 1)
    return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  return fails() ? nullptr : __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(size_t count, size_t bytes) {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* before, size_t bytes) {
  return fails() ? nullptr : __libc_realloc(before, bytes);
}
}
