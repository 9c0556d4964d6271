// Memory for the lists inside commands. It is handed out in pieces that never move, and is all
// taken back at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace batchflow {

class Arena {
 public:
  template <class T>
  std::span<T> make(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlign);
    if (count == 0) return {};
    T* data = reinterpret_cast<T*>(take(count * sizeof(T)));
    std::uninitialized_value_construct_n(data, count);
    return {data, count};
  }

  template <class T>
  std::span<const T> copy(std::span<const T> values) {
    auto mine = make<T>(values.size());
    std::copy(values.begin(), values.end(), mine.begin());
    return mine;
  }
  template <class T>
  std::span<const T> copy(const std::vector<T>& values) {
    return copy(std::span<const T>(values));
  }

  // Everything handed out so far is gone; the memory is kept for the next round.
  void clear() {
    chunk_ = 0;
    used_ = 0;
  }

 private:
  static constexpr std::size_t kAlign = 16;
  static constexpr std::size_t kChunk = std::size_t{1} << 16;
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };

  std::byte* take(std::size_t bytes) {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) {
      const std::size_t size = std::max(bytes, kChunk);
      chunks_.push_back({std::make_unique<std::byte[]>(size), size});
    }
    std::byte* data = chunks_[chunk_].bytes.get() + used_;
    used_ += bytes;
    return data;
  }

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace batchflow
