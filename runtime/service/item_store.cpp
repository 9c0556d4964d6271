#include "runtime/service/item_store.h"

#include <utility>

namespace batchflow {

void ItemStore::put(ShareId share, ItemId item, std::span<const std::byte> bytes) {
  put(key(share, item), std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
}

void ItemStore::put(ShareId share, ItemId item, std::vector<std::byte>&& bytes) {
  put(key(share, item), std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

void ItemStore::put(std::uint64_t key, Item item) {
  const std::lock_guard lock(mutex_);
  Item& place = items_[key];
  if (place) forget(key, place->size());
  bytes_ += item->size();
  Sum& sum = sums_[static_cast<std::uint32_t>(key >> 32)];
  sum.bytes += item->size();
  ++sum.items;
  place = std::move(item);
}

ItemStore::Item ItemStore::find(ShareId share, ItemId item) const {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(key(share, item));
  return found == items_.end() ? nullptr : found->second;
}

void ItemStore::drop(ShareId share, ItemId item) {
  Item gone;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(key(share, item));
  if (found == items_.end()) return;
  forget(found->first, found->second->size());
  gone = std::move(found->second);
  items_.erase(found);
}

void ItemStore::drop_all(ShareId share) {
  const std::lock_guard lock(mutex_);
  std::erase_if(items_, [&](const auto& entry) {
    if (entry.first >> 32 != share.value) return false;
    forget(entry.first, entry.second->size());
    return true;
  });
}

void ItemStore::forget(std::uint64_t key, Bytes bytes) {
  bytes_ -= bytes;
  Sum& sum = sums_[static_cast<std::uint32_t>(key >> 32)];
  sum.bytes -= bytes;
  --sum.items;
}

ItemStore::Sum ItemStore::sum(ShareId share) const {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(share.value);
  return found == sums_.end() ? Sum{} : found->second;
}

Bytes ItemStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t ItemStore::items() const {
  const std::lock_guard lock(mutex_);
  return items_.size();
}

}  // namespace batchflow
