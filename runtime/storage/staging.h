// The arena that reads land in, and who has which part of it.
//
// In pages of 4 KiB, any size up to all of it, in O(log n), from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "core/types.h"
#include "runtime/storage/extents.h"

namespace batchflow {

class Staging {
 public:
  // Throws std::runtime_error when there is not so much memory.
  explicit Staging(Bytes bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Null when no part of that size is free. REQUIRES: bytes <= bytes()
  std::byte* take(Bytes bytes);
  // REQUIRES: `memory` came from take, and has not been given back since
  void give_back(std::byte* memory);

  std::byte* begin() const { return begin_; }
  Bytes bytes() const { return pages_ * Extents::kPage; }
  bool contains(const std::byte* from, Bytes bytes) const {
    return from >= begin_ && from + bytes <= begin_ + this->bytes();
  }

 private:
  using Page = Extents::Page;

  std::byte* begin_ = nullptr;
  const Page pages_;
  std::mutex mutex_;
  Extents free_;
  std::unordered_map<Page, Page> taken_;  // first page and how many
};

}  // namespace batchflow
