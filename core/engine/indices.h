// Indices into the engine's pools, as ids: an index into one pool does not compile as one into
// another. Streams and shares have no index beside the StreamId and the ShareId that commands name
// them by: the engine makes these ids, from the indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/flat_map.h"
#include "core/base/pool.h"
#include "core/base/types.h"

namespace batchflow::engine {

using BatchIndex = Id<struct BatchIndexTag, std::uint32_t>;
using BlockIndex = Id<struct BlockIndexTag, std::uint32_t>;
using DatasetIndex = Id<struct DatasetIndexTag, std::uint32_t>;
using JobIndex = Id<struct JobIndexTag, std::uint32_t>;
using MakingIndex = Id<struct MakingIndexTag, std::uint32_t>;
using NodeIndex = Id<struct NodeIndexTag, std::uint32_t>;
using ReadIndex = Id<struct ReadIndexTag, std::uint32_t>;
using ShownIndex = Id<struct ShownIndexTag, std::uint32_t>;
using WorkerIndex = Id<struct WorkerIndexTag, std::uint32_t>;

// A pool of objects that are named by an id. `each` visits those that live, in the order of their
// indices; the visitor may release any of them, and make others.
template <class T, class Index>
class IndexedPool {
 public:
  Index make() { return Index(pool_.make()); }
  void release(Index index) { pool_.release(index.value); }
  bool live(Index index) const { return pool_.live(index.value); }
  T& operator[](Index index) { return pool_[index.value]; }
  const T& operator[](Index index) const { return pool_[index.value]; }
  template <class Is>
  bool any(Is is) const {
    for (std::uint32_t index = 0; index < pool_.size(); ++index) {
      if (pool_.live(index) && is(Index(index))) return true;
    }
    return false;
  }
  template <class Visit>
  void each(Visit visit) const {
    for (std::uint32_t index = 0; index < pool_.size(); ++index) {
      if (pool_.live(index)) visit(Index(index));
    }
  }

 private:
  Pool<T> pool_;
};

// A vector of objects that are named by an id.
template <class T, class Index>
class IndexedVector {
 public:
  Index add() {
    all_.emplace_back();
    return Index(static_cast<std::uint32_t>(all_.size() - 1));
  }
  T& operator[](Index index) { return all_[index.value]; }
  const T& operator[](Index index) const { return all_[index.value]; }
  std::size_t size() const { return all_.size(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  template <class Visit>
  void each(Visit visit) const {
    for (std::uint32_t index = 0; index < all_.size(); ++index) visit(Index(index));
  }

 private:
  std::vector<T> all_;
};

// Which object a backend means by its id. Nothing iterates over it.
template <class Key, class Index>
class IndexMap {
 public:
  // None when absent.
  Index find(Key key) const { return Index(map_.find(key.value)); }
  bool has(Key key) const { return map_.has(key.value); }
  // REQUIRES: has(key)
  Index at(Key key) const { return Index(map_.at(key.value)); }
  void set(Key key, Index index) { map_.set(key.value, index.value); }
  void erase(Key key) { map_.erase(key.value); }
  std::size_t size() const { return map_.size(); }

 private:
  FlatMap map_;
};

}  // namespace batchflow::engine
