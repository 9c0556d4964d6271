// Staging memory, into which reads go, and which parts of it are taken.
//
// Parts have whole pages of 4 KiB, up to all of the memory. Any thread may take and give back a
// part, in O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "core/base/types.h"
#include "runtime/storage/free_pages.h"

namespace batchflow::storage {

class Staging {
 public:
  // Throws std::runtime_error where there is not so much memory.
  explicit Staging(Bytes bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Null when no part of that size is free. REQUIRES: bytes <= bytes()
  std::byte* take(Bytes bytes);
  // REQUIRES: `memory` came from take(), and was not given back since
  void give_back(std::byte* memory);

  std::byte* begin() const { return begin_; }
  Bytes bytes() const { return pages_ * FreePages::kPage; }
  bool contains(const std::byte* from, Bytes bytes) const {
    return from >= begin_ && from + bytes <= begin_ + this->bytes();
  }

 private:
  using Page = FreePages::Page;

  std::byte* begin_ = nullptr;
  const Page pages_;
  std::mutex mutex_;
  FreePages free_;
  std::unordered_map<Page, Page> taken_;  // by first page, the number of pages
};

}  // namespace batchflow::storage
