#include "runtime/service/backend/item_store.h"

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
#include "runtime/memory/out_of_memory.h"

namespace batchflow::service {
namespace {

// With four times the addresses a run is found however the rest is cut up, except for unusual
// sizes. They are enough for all of the machine's memory, because the budget may grow.
Bytes addresses_for(Bytes budget) {
  const Bytes machine = Bytes{static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)))} *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return 4 * std::max(budget, machine);
}

constexpr Bytes kPage = storage::FreePages::kPage;
constexpr Bytes kRegion = storage::HugePages::kBytes;
constexpr storage::FreePages::Page kRegionPages = kRegion / kPage;

// What an item takes beside its pages, for the entry that finds it.
constexpr Bytes kBytesPerItem = 160;

Bytes bytes_in(std::span<const std::span<const std::byte>> parts) {
  Bytes bytes = 0;
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  return bytes;
}

storage::FreePages::Page pages_for(Bytes bytes) {
  return std::max<storage::FreePages::Page>(1, storage::FreePages::pages_of(bytes));
}

}  // namespace

struct ItemStore::Kept {
  Kept(ItemStore& s, std::byte* m, Bytes b, MemoryCharge c)
      : store(s), memory(m), bytes(b), charge(std::move(c)) {}
  Kept(const Kept&) = delete;
  ~Kept() { store.release(*this); }
  storage::FreePages::Page pages() const { return pages_for(bytes); }

  ItemStore& store;
  std::byte* memory;
  Bytes bytes;
  MemoryCharge charge;  // for all but the pages
};

std::span<const std::byte> ItemStore::bytes_of(const Item& item) {
  return {item->memory, item->bytes};
}

std::byte* ItemStore::memory_of(const Item& item) {
  return item->memory;
}

ItemStore::ItemStore(MemoryBudget& budget) : budget_(budget) {
  mapped_ = MAP_FAILED;
  // A system that counts addresses as memory grants fewer.
  for (addresses_ = addresses_for(budget.most()); mapped_ == MAP_FAILED; addresses_ /= 2) {
    addresses_ = (addresses_ + kRegion - 1) / kRegion * kRegion;
    mapped_bytes_ = addresses_ + kRegion;
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ != MAP_FAILED) break;
    if (addresses_ <= budget.most() / 2)
      throw std::system_error(errno, std::generic_category(), "memory for kept samples");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
  begin_ = static_cast<std::byte*>(mapped_) + (kRegion - address % kRegion) % kRegion;
  // Huge pages only where all of a region is counted: the budget must count what the machine gives.
  madvise(mapped_, mapped_bytes_, MADV_NOHUGEPAGE);
  madvise(mapped_, mapped_bytes_, MADV_DONTFORK);
  free_ = storage::FreePages(addresses_ / kPage);
  budget_.set_reclaim([this] { return give_back_spare() || drop_aside(); });
}

ItemStore::~ItemStore() {
  budget_.set_reclaim(nullptr);
  tables_.clear();
  aside_.clear();
  munmap(mapped_, mapped_bytes_);
}

// ----------------------------------------------------------------------------------- pages ----

// Calls visit(region, count) for each region that the pages lie in.
template <class Visit>
void each_region(storage::FreePages::Page first, storage::FreePages::Page count, Visit&& visit) {
  while (count > 0) {
    const storage::FreePages::Page here = std::min(count, kRegionPages - first % kRegionPages);
    visit(first / kRegionPages, here);
    first += here;
    count -= here;
  }
}

// None: there are no addresses.
std::optional<ItemStore::Pages> ItemStore::take_pages(storage::FreePages::Page count) {
  Pages pages{0, count, 0, {}, true};
  const std::lock_guard lock(mutex_);
  const auto first = free_.take(count);
  if (!first) return std::nullopt;
  pages.first = *first;
  bytes_ += count * kPage;
  each_region(pages.first, count, [&](std::uint64_t index, storage::FreePages::Page here) {
    Region& region = regions_[index];
    // The last of the budget is for pages that are needed now, not for those that may be.
    const Bytes most = budget_.most();
    if (region.used == 0 && budget_.used() + kRegion <= most - most / 16 &&
        budget_.take_now(kRegion)) {
      region.state = Region::State::being_filled;
      pages.to_fill.push_back(index);
      budget_.add_spare(kRegion);
    }
    region.used += here;
    if (region.state == Region::State::by_item)
      pages.own += here;
    else
      budget_.take_spare(here * kPage);
    if (region.state != Region::State::whole) pages.are_there = false;
  });
  return pages;
}

void ItemStore::fill_regions(const Pages& pages) {
  for (const std::uint64_t index : pages.to_fill) {
    huge_pages_.populate(begin_ + index * kRegion, kRegion);
    const std::lock_guard lock(mutex_);
    regions_.at(index).state = Region::State::whole;
  }
}

// The budget counts all of the pages but `uncounted`, which are in no whole region. A counted page
// may be in a region that was whole when the page was taken, and is not any more.
void ItemStore::give_back(storage::FreePages::Page first, storage::FreePages::Page count,
                          storage::FreePages::Page uncounted) {
  Bytes bytes = 0;
  const std::lock_guard lock(mutex_);
  storage::FreePages::Page at = first;
  each_region(first, count, [&](std::uint64_t index, storage::FreePages::Page here) {
    const auto found = regions_.find(index);
    Region& region = found->second;
    region.used -= here;
    if (region.state == Region::State::by_item) {
      empty(at, here);  // before another item has the addresses
      bytes += here * kPage;
    } else if (region.used > 0) {
      budget_.add_spare(here * kPage);
    } else {
      empty(index * kRegionPages, kRegionPages);
      madvise(begin_ + index * kRegion, kRegion, MADV_NOHUGEPAGE);
      budget_.take_spare(kRegion - here * kPage);
      bytes += kRegion;
    }
    if (region.used == 0) regions_.erase(found);
    at += here;
  });
  free_.give_back(first, count);
  bytes_ -= count * kPage;
  budget_.give_back(bytes - uncounted * kPage);
}

void ItemStore::empty(storage::FreePages::Page first, storage::FreePages::Page count) {
  madvise(begin_ + first * kPage, count * kPage, MADV_DONTNEED);
}

bool ItemStore::give_back_spare() {
  storage::FreePages::Page spare = 0;
  if (budget_.needed() == budget_.used()) return false;
  const std::lock_guard lock(mutex_);
  for (auto& [index, region] : regions_) {
    if (region.state != Region::State::whole || region.used == kRegionPages) continue;
    region.state = Region::State::by_item;
    madvise(begin_ + index * kRegion, kRegion, MADV_NOHUGEPAGE);
    free_.each_free(index * kRegionPages, kRegionPages, [&](auto first, auto count) {
      empty(first, count);
      spare += count;
    });
  }
  budget_.take_spare(spare * kPage);
  budget_.give_back(spare * kPage);
  return spare > 0;
}

Bytes ItemStore::needed_for(std::span<const std::span<const std::byte>> parts) {
  return pages_for(bytes_in(parts)) * kPage + kBytesPerItem;
}

ItemStore::Item ItemStore::make(Bytes bytes) {
  const memory::WaitsForMemory scope;  // half a change of what all share would stay
  MemoryCharge charge(budget_, kBytesPerItem);
  if (!charge) return nullptr;
  const std::optional<Pages> pages = take_pages(pages_for(bytes));
  if (!pages) return nullptr;
  fill_regions(*pages);
  if (!budget_.take(pages->own * kPage)) {
    give_back(pages->first, pages->count, pages->own);
    return nullptr;
  }
  auto kept =
      std::make_shared<Kept>(*this, begin_ + pages->first * kPage, bytes, std::move(charge));
  // Without this, writing to a page for which the machine has no memory would end the process.
  if (!pages->are_there && madvise(kept->memory, pages->count * kPage, MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL)
    return nullptr;
  if (BF_FAILPOINT("service.items.fill")) return nullptr;
  return kept;
}

void ItemStore::release(const Kept& kept) {
  const memory::WaitsForMemory scope;
  give_back(static_cast<storage::FreePages::Page>(kept.memory - begin_) / kPage, kept.pages(), 0);
}

const ItemStore::Item* ItemStore::Table::find(ItemId item) const {
  const std::size_t piece = item.value / kPiece;
  if (piece >= pieces.size() || !pieces[piece]) return nullptr;
  const Item& found = pieces[piece]->items[item.value % kPiece];
  return found ? &found : nullptr;
}

bool ItemStore::put(ShareId share, ItemId item, std::span<const std::byte> bytes) {
  return put(share, item, {&bytes, 1});
}

bool ItemStore::put(ShareId share, ItemId item, std::span<const std::span<const std::byte>> parts) {
  drop(share, item);
  return put(share, item, copy(parts), bytes_in(parts));
}

ItemStore::Item ItemStore::copy(std::span<const std::span<const std::byte>> parts) {
  Item made = make(bytes_in(parts));
  if (!made) return made;
  std::byte* to = made->memory;
  for (const std::span<const std::byte> part : parts) to = std::copy(part.begin(), part.end(), to);
  return made;
}

bool ItemStore::put(ShareId share, ItemId item, Item copied, Bytes bytes) {
  Item before;  // is freed outside of the lock
  const std::lock_guard lock(mutex_);
  Table& table = tables_[share.value];
  before = take(table, item);
  ++table.sum.offered_items;
  table.sum.offered_bytes += pages_for(bytes) * kPage;
  if (!copied) return false;
  const std::size_t piece = item.value / kPiece;
  if (piece >= table.pieces.size()) table.pieces.resize(piece + 1);
  if (!table.pieces[piece]) table.pieces[piece] = std::make_unique<Piece>();
  table.sum.bytes += copied->pages() * kPage;
  table.pieces[piece]->items[item.value % kPiece] = std::move(copied);
  ++table.pieces[piece]->used;
  ++table.sum.items;
  return true;
}

ItemStore::Item ItemStore::take(Table& table, ItemId item) {
  if (!table.find(item)) return nullptr;
  std::unique_ptr<Piece>& piece = table.pieces[item.value / kPiece];
  Item taken = std::move(piece->items[item.value % kPiece]);
  if (--piece->used == 0) piece.reset();
  table.sum.bytes -= taken->pages() * kPage;
  --table.sum.items;
  return taken;
}

ItemStore::Item ItemStore::find(ShareId share, ItemId item) const {
  Item found;
  find(share, {&item, 1}, {&found, 1});
  return found;
}

void ItemStore::find(ShareId share, std::span<const ItemId> items, std::span<Item> found) const {
  constexpr std::size_t kAtOnce = 64;
  std::array<const Item*, kAtOnce> kept;
  for (std::size_t first = 0; first < items.size(); first += kAtOnce) {
    const std::span some = items.subspan(first, std::min(kAtOnce, items.size() - first));
    const std::lock_guard lock(mutex_);
    const auto entry = tables_.find(share.value);
    if (entry == tables_.end()) return;
    const Table& table = entry->second;
    for (const ItemId item : some) {
      if (item.value / kPiece < table.pieces.size())
        __builtin_prefetch(&table.pieces[item.value / kPiece]);
    }
    for (const ItemId item : some) {
      if (item.value / kPiece < table.pieces.size() && table.pieces[item.value / kPiece])
        __builtin_prefetch(&table.pieces[item.value / kPiece]->items[item.value % kPiece]);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      kept[i] = table.find(some[i]);
      if (kept[i]) __builtin_prefetch(kept[i]->get());
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!kept[i]) continue;
      found[first + i] = *kept[i];
      __builtin_prefetch((*kept[i])->memory);
    }
  }
}

void ItemStore::drop(ShareId share, ItemId item) {
  Item gone;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(share.value);
  if (found != tables_.end()) gone = take(found->second, item);
}

void ItemStore::drop_all(ShareId share) {
  Table gone;
  const std::lock_guard lock(mutex_);
  if (auto found = tables_.extract(share.value)) gone = std::move(found.mapped());
}

// ---------------------------------------------------------------------- from before an engine ----

void ItemStore::put_aside(ShareId share, Aside what) {
  Table gone;
  const std::lock_guard lock(mutex_);
  auto found = tables_.extract(share.value);
  if (found) gone = merge(std::move(found.mapped()), aside_[what]);
}

std::vector<ItemStore::Aside> ItemStore::asides(Digest version) const {
  std::vector<Aside> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [what, table] : aside_) {
    if (what.version == version) all.push_back(what);
  }
  return all;
}

std::vector<ItemId> ItemStore::aside(Aside what) const {
  std::vector<ItemId> all;
  const std::lock_guard lock(mutex_);
  const auto found = aside_.find(what);
  if (found == aside_.end()) return all;
  const Table& table = found->second;
  for (std::size_t item = 0; item < table.pieces.size() * kPiece; ++item) {
    const ItemId id(static_cast<std::uint32_t>(item));
    if (table.find(id)) all.push_back(id);
  }
  return all;
}

void ItemStore::adopt(Aside what, ShareId share) {
  Table gone;
  const std::lock_guard lock(mutex_);
  auto found = aside_.extract(what);
  if (found) gone = merge(std::move(found.mapped()), tables_[share.value]);
}

void ItemStore::drop_shares() {
  std::unordered_map<std::uint32_t, Table> gone;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  gone.swap(tables_);
}

bool ItemStore::drop_aside() {
  std::map<Aside, Table> gone;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  gone.swap(aside_);
  return !gone.empty();
}

// Moves what `to` has not got. Answers the rest, to be freed outside of the lock.
ItemStore::Table ItemStore::merge(Table from, Table& to) {
  if (to.pieces.size() < from.pieces.size()) to.pieces.resize(from.pieces.size());
  for (std::size_t piece = 0; piece < from.pieces.size(); ++piece) {
    if (!from.pieces[piece]) continue;
    if (!to.pieces[piece]) to.pieces[piece] = std::make_unique<Piece>();
    for (std::size_t i = 0; i < kPiece; ++i) {
      Item& item = from.pieces[piece]->items[i];
      Item& place = to.pieces[piece]->items[i];
      if (!item || place) continue;
      ++to.pieces[piece]->used;
      ++to.sum.items;
      ++to.sum.offered_items;
      to.sum.bytes += item->pages() * kPage;
      to.sum.offered_bytes += item->pages() * kPage;
      place = std::move(item);
    }
    if (to.pieces[piece]->used == 0) to.pieces[piece].reset();
  }
  return from;
}

Bytes ItemStore::drop_some(ShareId share, Bytes least) {
  std::vector<Item> gone;  // freed outside of the lock
  Bytes bytes = 0;
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(share.value);
  if (found == tables_.end()) return 0;
  Table& table = found->second;
  for (std::size_t item = 0; item < table.pieces.size() * kPiece && bytes < least; ++item) {
    if (!table.pieces[item / kPiece]) continue;
    if (Item one = take(table, ItemId(static_cast<std::uint32_t>(item)))) {
      bytes += one->pages() * kPage;
      gone.push_back(std::move(one));
    }
  }
  return bytes;
}

ItemStore::Sum ItemStore::sum(ShareId share) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(share.value);
  return found == tables_.end() ? Sum{} : found->second.sum;
}

ItemStore::Sum ItemStore::sum(Aside what) const {
  const std::lock_guard lock(mutex_);
  const auto found = aside_.find(what);
  return found == aside_.end() ? Sum{} : found->second.sum;
}

Bytes ItemStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t ItemStore::items() const {
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const auto& [share, table] : tables_) all += table.sum.items;
  return all;
}

}  // namespace batchflow::service
