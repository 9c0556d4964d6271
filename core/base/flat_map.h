// An open-addressing map from 64-bit keys to 32-bit values, for lookups alone. Nothing iterates
// over it, so nothing depends on the order of its buckets.
//
// No call takes long: when the table must grow, the entries of the old one move a few at a time,
// with the calls that follow.
#pragma once

#include <cstdint>
#include <utility>

#include "core/base/pool.h"
#include "core/base/random.h"
#include "core/base/zeroed_memory.h"

namespace batchflow {

class FlatMap {
 public:
  // kNone when absent.
  std::uint32_t find(std::uint64_t key) const {
    const std::uint32_t value = table_.find(key);
    return value != kNone || old_.count == 0 ? value : old_.find(key);
  }

  bool has(std::uint64_t key) const { return find(key) != kNone; }
  // REQUIRES: has(key)
  std::uint32_t at(std::uint64_t key) const {
    const std::uint32_t value = find(key);
    BF_CHECK(value != kNone);
    return value;
  }

  // Replaces what was there. REQUIRES: value != kNone
  void set(std::uint64_t key, std::uint32_t value) {
    move_some();
    if ((table_.count + 1) * 2 > table_.size) enlarge();
    if (old_.count != 0) old_.erase(key);
    table_.set(key, value);
  }

  void erase(std::uint64_t key) {
    move_some();
    if (!table_.erase(key) && old_.count != 0) old_.erase(key);
  }

  // Erases the key only if it has this value.
  void erase(std::uint64_t key, std::uint32_t value) {
    move_some();
    if (!table_.erase(key, value) && old_.count != 0) old_.erase(key, value);
  }

  std::size_t size() const { return table_.count + old_.count; }

 private:
  struct Bucket {
    std::uint64_t key;
    std::uint32_t value_plus_1;  // 0: empty
  };

  struct Table {
    ZeroedMemory memory;
    Bucket* buckets = nullptr;
    std::size_t size = 0;  // a power of two, or 0
    std::size_t count = 0;

    Table() = default;
    explicit Table(std::size_t room) : size(room) {
      memory.grow(size * sizeof(Bucket));
      buckets = static_cast<Bucket*>(memory.data());
    }

    std::size_t home(std::uint64_t key) const { return mix(key) & (size - 1); }
    std::size_t next(std::size_t at) const { return (at + 1) & (size - 1); }
    std::size_t bucket_of(std::uint64_t key) const {
      std::size_t at = home(key);
      while (buckets[at].value_plus_1 != 0 && buckets[at].key != key) at = next(at);
      return at;
    }
    // An empty bucket's value is 0, and 0 - 1 is kNone.
    std::uint32_t find(std::uint64_t key) const {
      return count == 0 ? kNone : buckets[bucket_of(key)].value_plus_1 - 1;
    }
    void set(std::uint64_t key, std::uint32_t value) {
      Bucket& bucket = buckets[bucket_of(key)];
      if (bucket.value_plus_1 == 0) ++count;
      bucket = {key, value + 1};
    }
    // Answers whether the key was here. kNone: erase it whatever its value.
    bool erase(std::uint64_t key, std::uint32_t value = kNone) {
      if (size == 0) return false;
      const std::size_t at = bucket_of(key);
      const std::uint32_t found = buckets[at].value_plus_1 - 1;
      if (found == kNone) return false;
      if (value == kNone || value == found) close(at);
      return true;
    }
    // Later entries of the run move back into the hole when that keeps them findable.
    void close(std::size_t hole) {
      --count;
      for (std::size_t at = next(hole); buckets[at].value_plus_1 != 0; at = next(at)) {
        const std::size_t wanted = home(buckets[at].key);
        const bool between =
            hole <= at ? (wanted > hole && wanted <= at) : (wanted > hole || wanted <= at);
        if (between) continue;
        buckets[hole] = buckets[at];
        hole = at;
      }
      buckets[hole].value_plus_1 = 0;
    }
  };

  // Four steps a call empty the old table long before the new one is full.
  void move_some() {
    for (int step = 0; step < 4 && old_.count != 0; ++step) {
      if (old_.buckets[moving_].value_plus_1 == 0) {
        moving_ = old_.next(moving_);
        continue;
      }
      const Bucket bucket = old_.buckets[moving_];
      old_.close(moving_);
      table_.set(bucket.key, bucket.value_plus_1 - 1);
    }
    if (old_.count == 0 && old_.size != 0) old_ = Table();
  }

  void enlarge() {
    while (old_.count != 0) move_some();
    old_ = std::move(table_);
    table_ = Table(old_.size == 0 ? 64 : old_.size * 2);
    moving_ = 0;
  }

  Table table_;
  Table old_;  // being emptied into table_
  std::size_t moving_ = 0;
};

}  // namespace batchflow
