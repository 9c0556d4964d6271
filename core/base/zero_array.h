// An array of zeros that costs nothing until it is touched.
//
// Policies and shares index it by dense ids. To make one, to make it larger and to free it take so
// little time for each entry that a step does not feel it. T must be trivially copyable, and all
// zero bits must be a meaningful T.
//
// The first touch of a page takes the system microseconds, and in a very long array each of a
// block's samples lies on a page of its own. So an array that is made very long has its entries in
// leaves of 16, which lie side by side in the order in which they are first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/flat_map.h"
#include "core/base/zeroed_memory.h"

namespace batchflow {

// Pieces of zeroed memory, numbered in the order in which they are taken. They stay where they are.
template <class Piece>
class ZeroedPieces {
 public:
  std::uint32_t take() {
    if (taken_ % kInSlab == 0) slabs_.emplace_back().grow(kInSlab * sizeof(Piece));
    return taken_++;
  }
  Piece& operator[](std::uint32_t number) const {
    return static_cast<Piece*>(slabs_[number / kInSlab].data())[number % kInSlab];
  }

 private:
  static constexpr std::uint32_t kInSlab = (std::size_t{2} << 20) / sizeof(Piece);
  std::vector<ZeroedMemory> slabs_;
  std::uint32_t taken_ = 0;
};

// Entries in leaves, which a hash table finds; what is not there is zero.
template <class T>
class SparseZeros {
 public:
  T& at(std::size_t index) {
    std::uint32_t leaf = leaf_of_.find(index / kFan);
    if (leaf == kNone) leaf_of_.set(index / kFan, leaf = leaves_.take());
    return leaves_[leaf].entries[index % kFan];
  }
  const T& at(std::size_t index) const {
    static constexpr T kZero{};
    const std::uint32_t leaf = leaf_of_.find(index / kFan);
    return leaf == kNone ? kZero : leaves_[leaf].entries[index % kFan];
  }

 private:
  static constexpr std::size_t kFan = 16;
  struct Leaf {
    T entries[kFan];
  };

  FlatMap leaf_of_;
  ZeroedPieces<Leaf> leaves_;
};

template <class T>
class ZeroArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // An array that is made with more entries than this is sparse.
  static constexpr std::size_t kDenseMost = std::size_t{1} << 24;

  ZeroArray() = default;
  explicit ZeroArray(std::size_t size, std::size_t dense_most = kDenseMost)
      : dense_most_(dense_most) {
    grow(size);
  }

  void grow(std::size_t size) {
    if (size <= size_) return;
    if (size_ == 0 && size > dense_most_) sparse_ = std::make_unique<SparseZeros<T>>();
    if (!sparse_) {
      memory_.grow(size * sizeof(T));
      data_ = static_cast<T*>(memory_.data());
    }
    size_ = size;
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_ ? data_[index] : sparse_->at(index); }
  const T& operator[](std::size_t index) const {
    return data_ ? data_[index] : std::as_const(*sparse_).at(index);
  }

 private:
  ZeroedMemory memory_;
  T* data_ = nullptr;  // null: sparse
  std::unique_ptr<SparseZeros<T>> sparse_;
  std::size_t size_ = 0;
  std::size_t dense_most_ = kDenseMost;
};

}  // namespace batchflow
