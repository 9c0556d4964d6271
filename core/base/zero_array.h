// An array of zeros that costs nothing until it is touched.
//
// Policies and shares index it by dense ids. Making one, making it larger and freeing it take no
// time proportional to its length that a step would feel. The system hands out zeroed pages when
// they are first written, in huge pages where it can, which also saves misses of the address cache.
// T must be trivially copyable, and all zero bits must be a meaningful T.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace batchflow {

// For code that must never take long: an engine's step. While a `Scope` lives, zeroed memory of
// this thread comes in small pages, because finding a huge one can take milliseconds. What is freed
// is given back to the system a slice at each `give_back`, or with this object.
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

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;  // what the system gave, at least what was asked for
};

template <class T>
class ZeroArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ZeroArray() = default;
  explicit ZeroArray(std::size_t size) { grow(size); }

  void grow(std::size_t size) {
    if (size <= size_) return;
    memory_.grow(size * sizeof(T));
    data_ = static_cast<T*>(memory_.data());
    size_ = size;
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  ZeroedMemory memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace batchflow
