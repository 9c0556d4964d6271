// An array of zeros that costs nothing until it is touched.
//
// Policies and shares index it by dense ids. Making one, making it larger and freeing it take no
// time proportional to its length that a step would feel. The system hands out zeroed pages when
// they are first written, in huge pages where it can, which also saves misses of the address cache.
// T must be trivially copyable, and all zero bits must be a meaningful T.
//
// The first touch of a page takes the system microseconds, and in a very long array each of a
// block's samples lies on a page of its own. So an array that is made very long has its entries in
// leaves of 64, which lie side by side in the order in which they are first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

// Pieces of zeroed memory, numbered from 1 in the order in which they are taken. They stay where
// they are.
template <class Piece>
class ZeroedPieces {
 public:
  std::uint32_t take() {
    if (taken_ % kInSlab == 0) slabs_.emplace_back().grow(kInSlab * sizeof(Piece));
    return ++taken_;
  }
  Piece& operator[](std::uint32_t number) const {
    return static_cast<Piece*>(slabs_[(number - 1) / kInSlab].data())[(number - 1) % kInSlab];
  }

 private:
  static constexpr std::uint32_t kInSlab = (std::size_t{2} << 20) / sizeof(Piece);
  std::vector<ZeroedMemory> slabs_;
  std::uint32_t taken_ = 0;
};

// Entries in leaves, leaves in nodes, nodes in one list; what is not there is zero.
template <class T>
class SparseZeros {
 public:
  void grow(std::size_t size) { nodes_of_.grow((size / kUnderNode + 1) * sizeof(std::uint32_t)); }
  T& at(std::size_t index) {
    std::uint32_t& node = node_of(index);
    if (node == 0) node = nodes_.take();
    std::uint32_t& leaf = nodes_[node].leaves[index / kFan % kFan];
    if (leaf == 0) leaf = leaves_.take();
    return leaves_[leaf].entries[index % kFan];
  }
  const T& at(std::size_t index) const {
    static constexpr T kZero{};
    const std::uint32_t node = node_of(index);
    const std::uint32_t leaf = node == 0 ? 0 : nodes_[node].leaves[index / kFan % kFan];
    return leaf == 0 ? kZero : leaves_[leaf].entries[index % kFan];
  }

 private:
  static constexpr std::size_t kFan = 64, kUnderNode = kFan * kFan;
  struct Leaf {
    T entries[kFan];
  };
  struct Node {
    std::uint32_t leaves[kFan];
  };
  std::uint32_t& node_of(std::size_t index) const {
    return static_cast<std::uint32_t*>(nodes_of_.data())[index / kUnderNode];
  }

  ZeroedMemory nodes_of_;
  ZeroedPieces<Node> nodes_;
  ZeroedPieces<Leaf> leaves_;
};

template <class T>
class ZeroArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // One that is made with more entries than these is sparse.
  static constexpr std::size_t kDenseMost = std::size_t{1} << 24;

  ZeroArray() = default;
  explicit ZeroArray(std::size_t size) { grow(size); }

  void grow(std::size_t size) {
    if (size <= size_) return;
    if (size_ == 0 && size > kDenseMost) sparse_ = std::make_unique<SparseZeros<T>>();
    if (sparse_) {
      sparse_->grow(size);
    } else {
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
};

}  // namespace batchflow
