// Samples kept in this process's own memory, as stored or decoded: what the engine's shares of
// items hold. Nobody else sees them.
//
// An item's bytes stay valid while somebody holds its pointer, also if it is dropped meanwhile.
// Thread-safe: reads put items in, workers take them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/types.h"

namespace batchflow {

class ItemStore {
 public:
  using Item = std::shared_ptr<const std::vector<std::byte>>;

  void put(ShareId share, ItemId item, std::span<const std::byte> bytes);
  void put(ShareId share, ItemId item, std::vector<std::byte>&& bytes);
  Item find(ShareId share, ItemId item) const;  // null if it is not there
  void drop(ShareId share, ItemId item);
  void drop_all(ShareId share);
  Bytes bytes() const;
  struct Sum {
    std::uint64_t items = 0;
    Bytes bytes = 0;
  };
  Sum sum(ShareId share) const;
  std::size_t items() const;

 private:
  static std::uint64_t key(ShareId share, ItemId item) {
    return std::uint64_t{share.value} << 32 | item.value;
  }
  void put(std::uint64_t key, Item item);
  void forget(std::uint64_t key, Bytes bytes);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Item> items_;
  Bytes bytes_ = 0;
  std::unordered_map<std::uint32_t, Sum> sums_;  // by share
};

}  // namespace batchflow
