// Maps arbitrary 64-bit ids to dense ids, numbered in the order of their first appearance.
//
// A hash table with linear probing; the order comes from the trace, never from the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/random.h"

namespace batchflow::traces {

class IdMap {
 public:
  std::size_t size() const { return size_; }

  // The dense id; a new one for a new id.
  std::uint32_t dense(std::uint64_t id) {
    if (2 * (size_ + 1) > entries_.size()) double_up();
    Entry& entry = entries_[find(id)];
    if (entry.dense == 0) entry = {id, static_cast<std::uint32_t>(++size_)};
    return entry.dense - 1;
  }

 private:
  struct Entry {
    std::uint64_t id;
    std::uint32_t dense;  // plus one; 0: free
  };

  std::size_t find(std::uint64_t id) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t bucket = static_cast<std::size_t>(mix(id + kGolden)) & mask;
    while (entries_[bucket].dense != 0 && entries_[bucket].id != id) bucket = (bucket + 1) & mask;
    return bucket;
  }
  void double_up() {
    std::vector<Entry> old(entries_.empty() ? 1024 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.dense != 0) entries_[find(entry.id)] = entry;
    }
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace batchflow::traces
