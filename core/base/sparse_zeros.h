// A very long array of zeros of which few entries are ever written. Entries are in leaves of 16,
// which lie side by side in the order in which they are first touched; a hash table finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
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

template <class T>
class SparseZeros {
  static_assert(std::is_trivially_copyable_v<T>);

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

}  // namespace batchflow
