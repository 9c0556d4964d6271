#include "runtime/memory/buffer_pool.h"

#include <bit>
#include <utility>

namespace batchflow::memory {

namespace {

// What is asked for differs a little from time to time: rounded up by an eighth at most, it fits
// what was used before.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return step == 0 ? bytes : (bytes + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<std::byte[]> BufferPool::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::size_t size = rounded(bytes);
  Buffer buffer;
  {
    const std::lock_guard lock(idle_->mutex);
    const auto found = idle_->buffers.lower_bound(size);
    if (found != idle_->buffers.end() && found->first / 2 <= size) {
      size = found->first;
      buffer = std::move(found->second);
      idle_->bytes -= size;
      idle_->buffers.erase(found);
    }
  }
  if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  return {buffer.release(),
          [idle = idle_, size](std::byte* memory) { idle->keep(Buffer(memory), size); }};
}

std::size_t BufferPool::idle_bytes() const {
  const std::lock_guard lock(idle_->mutex);
  return idle_->bytes;
}

// What no longer fits goes: the largest first, since most of it is seldom needed.
void BufferPool::Idle::keep(Buffer buffer, std::size_t size) {
  std::multimap<std::size_t, Buffer> gone;  // is freed without the lock
  const std::lock_guard lock(mutex);
  bytes += size;
  buffers.emplace(size, std::move(buffer));
  while (bytes > most) {
    const auto largest = std::prev(buffers.end());
    bytes -= largest->first;
    gone.insert(buffers.extract(largest));
  }
}

}  // namespace batchflow::memory
