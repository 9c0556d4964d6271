#include "runtime/service/item_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/failpoint/failpoint.h"

namespace batchflow {
namespace {

// With four times the addresses a run is found however the rest is cut up, short of sizes that
// nobody has. As many as for all of the machine's memory, since the budget may grow.
Bytes addresses_for(Bytes budget) {
  const Bytes machine = Bytes{static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)))} *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return 4 * std::max(budget, machine);
}

// Beside its pages, for the entry that finds it.
constexpr Bytes kBytesPerItem = 160;

Extents::Page pages_for(Bytes bytes) {
  return std::max<Extents::Page>(1, Extents::pages_of(bytes));
}

}  // namespace

struct ItemStore::Kept {
  Kept(ItemStore& s, std::byte* m, Bytes b, MemoryCharge c)
      : store(s), memory(m), bytes(b), charge(std::move(c)) {}
  Kept(const Kept&) = delete;
  ~Kept() { store.release(*this); }
  Extents::Page pages() const { return pages_for(bytes); }

  ItemStore& store;
  std::byte* memory;
  Bytes bytes;
  MemoryCharge charge;
};

std::span<const std::byte> ItemStore::bytes_of(const Item& item) {
  return {item->memory, item->bytes};
}

ItemStore::ItemStore(MemoryBudget& budget) : budget_(budget) {
  void* memory = MAP_FAILED;
  // Where the system counts addresses as memory it grants fewer.
  for (addresses_ = addresses_for(budget.most()); memory == MAP_FAILED; addresses_ /= 2) {
    addresses_ = Extents::pages_of(addresses_) * Extents::kPage;
    memory = mmap(nullptr, addresses_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
    if (addresses_ <= budget.most() / 2)
      throw std::system_error(errno, std::generic_category(), "memory for kept samples");
  }
  begin_ = static_cast<std::byte*>(memory);
  // A page is a page: what the budget counts is what the machine gives.
  madvise(begin_, addresses_, MADV_NOHUGEPAGE);
  madvise(begin_, addresses_, MADV_DONTFORK);
  free_ = Extents(addresses_ / Extents::kPage);
}

ItemStore::~ItemStore() {
  items_.clear();
  munmap(begin_, addresses_);
}

std::unique_ptr<ItemStore::Kept> ItemStore::make(Bytes bytes) {
  const Extents::Page pages = pages_for(bytes);
  MemoryCharge charge(budget_, pages * Extents::kPage + kBytesPerItem);
  if (!charge) return nullptr;
  std::optional<Extents::Page> first;
  {
    const std::lock_guard lock(mutex_);
    first = free_.take(pages);
    if (first) bytes_ += pages * Extents::kPage;
  }
  if (!first) return nullptr;
  std::byte* const memory = begin_ + *first * Extents::kPage;
  auto kept = std::make_unique<Kept>(*this, memory, bytes, std::move(charge));
  // Without it, writing to a page the machine has no memory for would end the process.
  const bool filled =
      madvise(memory, pages * Extents::kPage, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
  if (!filled || BF_FAILPOINT("service.items.fill")) return nullptr;
  return kept;
}

void ItemStore::release(const Kept& kept) {
  // Before another has the addresses.
  madvise(kept.memory, kept.pages() * Extents::kPage, MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  free_.give_back(static_cast<Extents::Page>(kept.memory - begin_) / Extents::kPage, kept.pages());
  bytes_ -= kept.pages() * Extents::kPage;
}

bool ItemStore::put(ShareId share, ItemId item, std::span<const std::byte> bytes) {
  drop(share, item);
  {
    const std::lock_guard lock(mutex_);
    Sum& sum = sums_[share.value];
    ++sum.offered_items;
    sum.offered_bytes += pages_for(bytes.size()) * Extents::kPage;
  }
  std::unique_ptr<Kept> made = make(bytes.size());
  if (!made) return false;
  if (!bytes.empty()) std::memcpy(made->memory, bytes.data(), bytes.size());
  Item kept = std::move(made);
  const std::lock_guard lock(mutex_);
  Item& place = items_[key(share, item)];
  if (place) forget(share, *place);
  Sum& sum = sums_[share.value];
  sum.bytes += kept->pages() * Extents::kPage;
  ++sum.items;
  place.swap(kept);  // what another has put meanwhile is freed outside
  return true;
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
  forget(share, *found->second);
  gone = std::move(found->second);
  items_.erase(found);
}

void ItemStore::drop_all(ShareId share) {
  std::vector<Item> gone;
  const std::lock_guard lock(mutex_);
  std::erase_if(items_, [&](auto& entry) {
    if (entry.first >> 32 != share.value) return false;
    forget(share, *entry.second);
    gone.push_back(std::move(entry.second));
    return true;
  });
  sums_.erase(share.value);
}

Bytes ItemStore::drop_some(ShareId share, Bytes least) {
  std::vector<Item> gone;  // freed outside of the lock
  Bytes bytes = 0;
  const std::lock_guard lock(mutex_);
  for (auto item = items_.begin(); item != items_.end() && bytes < least;) {
    if (item->first >> 32 != share.value) {
      ++item;
      continue;
    }
    bytes += item->second->pages() * Extents::kPage;
    forget(share, *item->second);
    gone.push_back(std::move(item->second));
    item = items_.erase(item);
  }
  return bytes;
}

void ItemStore::forget(ShareId share, const Kept& kept) {
  Sum& sum = sums_[share.value];
  sum.bytes -= kept.pages() * Extents::kPage;
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
