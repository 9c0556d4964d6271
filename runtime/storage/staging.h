// The arena that reads land in, and who has which part of it.
//
// Best fit in pages of 4 KiB, neighbours merged when they come back: any size up to all of it, in
// O(log n), from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/types.h"

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
  Bytes bytes() const { return pages_ * kPage; }
  bool contains(const std::byte* from, Bytes bytes) const {
    return from >= begin_ && from + bytes <= begin_ + this->bytes();
  }

 private:
  using Page = std::uint32_t;
  static constexpr Bytes kPage = 4096;

  void add_free(Page first, Page count);
  void remove_free(Page first, Page count);

  std::byte* begin_ = nullptr;
  Page pages_ = 0;
  std::mutex mutex_;
  std::map<Page, Page> free_;                   // first page and how many
  std::set<std::pair<Page, Page>> free_sizes_;  // how many, and the first page
  std::unordered_map<Page, Page> taken_;        // first page and how many
};

}  // namespace batchflow
