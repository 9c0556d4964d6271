// Which pages of a range are free. They are taken in runs, from the smallest free run that is large
// enough; a run that is given back is joined with free neighbours. This is for staging memory, kept
// samples and the spill file. It is not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/types.h"

namespace batchflow::storage {

class FreePages {
 public:
  using Page = std::uint64_t;
  static constexpr Bytes kPage = 4096;
  static constexpr Page pages_of(Bytes bytes) { return (bytes + kPage - 1) / kPage; }

  explicit FreePages(Page pages) {
    if (pages > 0) add(0, pages);
  }

  // Takes a run of `count` pages and answers the first; none if no run is that long.
  std::optional<Page> take(Page count) {
    const auto fit = sizes_.lower_bound({count, 0});
    if (fit == sizes_.end()) return std::nullopt;
    const auto [size, first] = *fit;
    remove(first, size);
    if (size > count) add(first + count, size - count);
    return first;
  }

  // REQUIRES: the pages were taken
  void give_back(Page first, Page count) {
    const auto after = free_.lower_bound(first);
    if (after != free_.begin()) {
      const auto [before, size] = *std::prev(after);
      if (before + size == first) {
        remove(before, size);
        first = before;
        count += size;
      }
    }
    if (const auto next = free_.find(first + count); next != free_.end()) {
      const Page size = next->second;
      remove(first + count, size);
      count += size;
    }
    add(first, count);
  }

  // Calls visit(first, count) for the free pages among these, run by run.
  template <class Visit>
  void each_free(Page first, Page count, Visit&& visit) const {
    const Page end = first + count;
    auto run = free_.upper_bound(first);
    if (run != free_.begin()) --run;
    for (; run != free_.end() && run->first < end; ++run) {
      const Page from = std::max(first, run->first);
      const Page to = std::min(end, run->first + run->second);
      if (from < to) visit(from, to - from);
    }
  }

 private:
  void add(Page first, Page count) {
    free_.emplace(first, count);
    sizes_.emplace(count, first);
  }
  void remove(Page first, Page count) {
    free_.erase(first);
    sizes_.erase({count, first});
  }

  std::map<Page, Page> free_;              // by first page, the number of pages
  std::set<std::pair<Page, Page>> sizes_;  // number of pages, and the first page
};

}  // namespace batchflow::storage
