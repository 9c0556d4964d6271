#include "runtime/memory/buffer_pool.h"

#include <cstring>
#include <thread>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_CASE("a buffer is used again for what is a little larger or smaller") {
  BufferPool pool(16 * kMiB);
  const std::byte* first = pool.take(kMiB + 1).get();
  CHECK(pool.idle_bytes() == kMiB + kMiB / 8);
  for (const std::size_t bytes : {kMiB + kMiB / 8, kMiB, kMiB * 3 / 4}) {
    const auto again = pool.take(bytes);
    CHECK(again.get() == first);
    CHECK(pool.idle_bytes() == 0);
  }
  CHECK(pool.take(2 * kMiB).get() != first);
  CHECK(pool.take(kMiB / 4).get() != first);  // it would waste most of it
  CHECK(pool.take(0) == nullptr);
}

TEST_CASE("idle buffers are bounded, and the largest goes first") {
  BufferPool pool(4 * kMiB);
  {
    std::vector<std::shared_ptr<std::byte[]>> used;
    for (int i = 0; i < 8; ++i) used.push_back(pool.take(kMiB));
    used.push_back(pool.take(3 * kMiB));
  }
  CHECK(pool.idle_bytes() == 4 * kMiB);
  pool.take(100 * kMiB);
  CHECK(pool.idle_bytes() == 4 * kMiB);
}

TEST_CASE("two users never have one buffer, and what is used outlives the pool") {
  std::shared_ptr<std::byte[]> left;
  {
    BufferPool pool(4 * kMiB);
    std::vector<std::thread> users;
    for (int user = 1; user <= 4; ++user) {
      users.emplace_back([&pool, user] {
        for (std::size_t i = 0; i < 500; ++i) {
          const std::size_t bytes = 1000 + i % 7;
          const auto buffer = pool.take(bytes);
          std::memset(buffer.get(), user, bytes);
          std::this_thread::yield();
          for (std::size_t k = 0; k < bytes; k += 99)
            if (buffer[k] != std::byte(user)) FAIL_CHECK("another user wrote into it");
        }
      });
    }
    for (std::thread& one : users) one.join();
    left = pool.take(kMiB);
  }
  std::memset(left.get(), 1, kMiB);
}

}  // namespace
}  // namespace batchflow::memory
