// Memory that the system hands out as zeros, in pages that cost nothing until they are touched.
// Large pieces come in huge pages where they can, which saves misses of the address cache.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace batchflow {

// For code that must never take long: an engine's step. While a `Scope` lives, zeroed memory of
// this thread comes in small pages, because finding a huge page can take milliseconds. What is
// freed is given back to the system a slice at each `give_back`, or with this object.
class UnhurriedMemory {
 public:
  UnhurriedMemory() = default;
  UnhurriedMemory(const UnhurriedMemory&) = delete;
  UnhurriedMemory& operator=(const UnhurriedMemory&) = delete;
  ~UnhurriedMemory();

  class Scope {
   public:
    explicit Scope(UnhurriedMemory& memory);
    ~Scope();

   private:
    UnhurriedMemory* before_;
  };
  // True when nothing is left.
  bool give_back(std::size_t bytes);

 private:
  friend class ZeroedMemory;
  struct Pages {
    void* data;
    std::size_t bytes;
  };
  std::vector<Pages> freed_;
};

class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  ~ZeroedMemory();
  ZeroedMemory(ZeroedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // Grows to `bytes`. What is there stays; what is new is zero. REQUIRES: bytes >= the bytes so far
  void grow(std::size_t bytes);

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Memory that one object gave up becomes another's.
  static ZeroedMemory taken(void* data, std::size_t bytes) {
    ZeroedMemory memory;
    memory.data_ = data;
    memory.bytes_ = bytes;
    return memory;
  }
  void* give_up() {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;  // what the system gave: at least what was asked for
};

}  // namespace batchflow
