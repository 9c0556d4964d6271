// An array of zeros that costs nothing until it is touched.
//
// Policies and shares index it by dense ids. Making it, growing it and freeing it take so little
// time for each entry that a step stays short. T must be trivially copyable, and all zero bits must
// be a meaningful T.
#pragma once

#include <cstddef>
#include <type_traits>

#include "core/base/zeroed_memory.h"

namespace batchflow {

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
  void prefetch(std::size_t index) const { __builtin_prefetch(&data_[index]); }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  ZeroedMemory memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace batchflow
