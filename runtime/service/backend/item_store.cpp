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

// What an item takes beside its pages, for the entry that finds it.
constexpr Bytes kBytesPerItem = 160;

Bytes bytes_in(std::span<const std::span<const std::byte>> parts) {
  Bytes bytes = 0;
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  return bytes;
}

storage::Extents::Page pages_for(Bytes bytes) {
  return std::max<storage::Extents::Page>(1, storage::Extents::pages_of(bytes));
}

}  // namespace

struct ItemStore::Kept {
  Kept(ItemStore& s, std::byte* m, Bytes b, MemoryCharge c)
      : store(s), memory(m), bytes(b), charge(std::move(c)) {}
  Kept(const Kept&) = delete;
  ~Kept() { store.release(*this); }
  storage::Extents::Page pages() const { return pages_for(bytes); }

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
  // A system that counts addresses as memory grants fewer.
  for (addresses_ = addresses_for(budget.most()); memory == MAP_FAILED; addresses_ /= 2) {
    addresses_ = storage::Extents::pages_of(addresses_) * storage::Extents::kPage;
    memory = mmap(nullptr, addresses_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
    if (addresses_ <= budget.most() / 2)
      throw std::system_error(errno, std::generic_category(), "memory for kept samples");
  }
  begin_ = static_cast<std::byte*>(memory);
  // No huge pages: the budget must count what the machine gives.
  madvise(begin_, addresses_, MADV_NOHUGEPAGE);
  madvise(begin_, addresses_, MADV_DONTFORK);
  free_ = storage::Extents(addresses_ / storage::Extents::kPage);
}

ItemStore::~ItemStore() {
  tables_.clear();
  munmap(begin_, addresses_);
}

ItemStore::Item ItemStore::make(Bytes bytes) {
  const memory::WaitsForMemory scope;  // half a change of what all share would stay
  const storage::Extents::Page pages = pages_for(bytes);
  MemoryCharge charge(budget_, pages * storage::Extents::kPage + kBytesPerItem);
  if (!charge) return nullptr;
  std::optional<storage::Extents::Page> first;
  {
    const std::lock_guard lock(mutex_);
    first = free_.take(pages);
    if (first) bytes_ += pages * storage::Extents::kPage;
  }
  if (!first) return nullptr;
  std::byte* const memory = begin_ + *first * storage::Extents::kPage;
  auto kept = std::make_shared<Kept>(*this, memory, bytes, std::move(charge));
  // Without this, writing to a page for which the machine has no memory would end the process.
  const bool filled =
      madvise(memory, pages * storage::Extents::kPage, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
  if (!filled || BF_FAILPOINT("service.items.fill")) return nullptr;
  return kept;
}

void ItemStore::release(const Kept& kept) {
  const memory::WaitsForMemory scope;
  // Before another item has the addresses.
  madvise(kept.memory, kept.pages() * storage::Extents::kPage, MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  free_.give_back(
      static_cast<storage::Extents::Page>(kept.memory - begin_) / storage::Extents::kPage,
      kept.pages());
  bytes_ -= kept.pages() * storage::Extents::kPage;
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
  table.sum.offered_bytes += pages_for(bytes) * storage::Extents::kPage;
  if (!copied) return false;
  const std::size_t piece = item.value / kPiece;
  if (piece >= table.pieces.size()) table.pieces.resize(piece + 1);
  if (!table.pieces[piece]) table.pieces[piece] = std::make_unique<Piece>();
  table.sum.bytes += copied->pages() * storage::Extents::kPage;
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
  table.sum.bytes -= taken->pages() * storage::Extents::kPage;
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
  std::array<const Item*, kAtOnce> places;
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
      places[i] = table.find(some[i]);
      if (places[i]) __builtin_prefetch(places[i]->get());
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!places[i]) continue;
      found[first + i] = *places[i];
      __builtin_prefetch((*places[i])->memory);
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
      bytes += one->pages() * storage::Extents::kPage;
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
