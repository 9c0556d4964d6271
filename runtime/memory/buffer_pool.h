// Large buffers that are used again. A new buffer gets its pages at its first use, one fault each.
// That costs more than to fill it from a fast link.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace batchflow::memory {

// Thread-safe. Buffers may outlive it.
class BufferPool {
 public:
  // Idle buffers take at most so many bytes.
  explicit BufferPool(std::size_t idle_most) : idle_(std::make_shared<Idle>(idle_most)) {}

  // A buffer with anything in it. Null: `bytes` is 0.
  std::shared_ptr<std::byte[]> take(std::size_t bytes);
  std::size_t idle_bytes() const;

 private:
  using Buffer = std::unique_ptr<std::byte[]>;
  struct Idle {
    explicit Idle(std::size_t most_bytes) : most(most_bytes) {}
    void keep(Buffer buffer, std::size_t size);

    const std::size_t most;
    std::mutex mutex;
    std::multimap<std::size_t, Buffer> buffers;  // by size
    std::size_t bytes = 0;
  };
  std::shared_ptr<Idle> idle_;
};

}  // namespace batchflow::memory
