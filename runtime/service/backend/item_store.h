// Samples kept in this process's own memory, as stored or decoded: what the engine's shares of
// items hold. No other process sees them.
//
// Each sample has whole pages, as the engine counts. They come from one range of addresses that is
// several times as large as the machine's memory. So a run of addresses is always found, however
// much sizes differ.
//
// Pages come from the system by regions of 2 MiB, as huge pages where those cost less. The budget
// counts a region as a whole, and its pages are used again, until the last sample in it is gone.
// When others need the budget, the pages without a sample go back. Near the end of the budget there
// are no regions: each sample has pages of its own, which go back to the system at once when it is
// dropped.
//
// An item's bytes stay valid while its pointer is held, even if the item is dropped meanwhile, and
// count until then. Thread-safe: reads put items in, workers look them up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/storage/free_pages.h"
#include "runtime/storage/huge_pages.h"

namespace batchflow::service {

class ItemStore {
 private:
  struct Kept;

 public:
  // Holds the bytes. It must not outlive the store.
  using Item = std::shared_ptr<const Kept>;
  static std::span<const std::byte> bytes_of(const Item& item);
  // For the caller that made it, until it is put.
  static std::byte* memory_of(const Item& item);

  // Throws std::system_error when there are no addresses.
  explicit ItemStore(MemoryBudget& budget);
  ~ItemStore();
  ItemStore(const ItemStore&) = delete;

  // The memory that an item of these parts takes.
  static Bytes needed_for(std::span<const std::span<const std::byte>> parts);
  // Replaces what was there. False, and nothing is there: the budget or the machine has no memory
  // for it.
  bool put(ShareId share, ItemId item, std::span<const std::byte> bytes);
  // The parts follow one another in the item.
  bool put(ShareId share, ItemId item, std::span<const std::span<const std::byte>> parts);
  // The same in two parts: copy() copies, or make() makes memory of its own for so many bytes
  // (null: there is none), and put() takes it.
  Item make(Bytes bytes);
  Item copy(std::span<const std::byte> bytes) { return copy({&bytes, 1}); }
  Item copy(std::span<const std::span<const std::byte>> parts);
  bool put(ShareId share, ItemId item, Item copied, Bytes bytes);
  Item find(ShareId share, ItemId item) const;  // null if it is not there
  // Finds many items at once, at a fraction of the cost: memory that was not touched for long is
  // fetched ahead. What is there goes into `found`, in the same order; the rest of `found` stays as
  // it is.
  void find(ShareId share, std::span<const ItemId> items, std::span<Item> found) const;
  void drop(ShareId share, ItemId item);
  void drop_all(ShareId share);
  // Drops items of the share until they have taken at least `least` bytes; answers how many they
  // took.
  Bytes drop_some(ShareId share, Bytes least);
  // What is kept of a dataset version while no engine knows of it: items, or bundles of 1 << shift,
  // as they are stored or as this part of a pipeline has decoded them. It goes when memory is
  // needed.
  struct Aside {
    Digest version = 0;
    std::uint8_t bundle_shift = 0;
    Digest prefix = 0;
    auto operator<=>(const Aside&) const = default;
  };
  void put_aside(ShareId share, Aside what);
  std::vector<Aside> asides(Digest version) const;
  std::vector<ItemId> aside(Aside what) const;
  // The share has these items from now on, beside those that it has already.
  void adopt(Aside what, ShareId share);
  // Drops all but what was put aside.
  void drop_shares();
  Bytes bytes() const;  // that items take, also those that were dropped and are still held
  struct Sum {
    std::uint64_t items = 0;  // that can be found
    Bytes bytes = 0;
    std::uint64_t offered_items = 0;  // since the last drop_all, kept or not
    Bytes offered_bytes = 0;          // that these take
  };
  Sum sum(ShareId share) const;
  Sum sum(Aside what) const;
  std::size_t items() const;

 private:
  // Items are dense. Each share has a table by item, in pieces that exist as long as anything is in
  // them.
  static constexpr std::size_t kPiece = 16;
  struct Piece {
    std::array<Item, kPiece> items;
    std::size_t used = 0;
  };
  struct Table {
    std::vector<std::unique_ptr<Piece>> pieces;
    Sum sum;
    const Item* find(ItemId item) const;
  };

  // 2 MiB of the addresses, in which items have pages.
  struct Region {
    storage::FreePages::Page used = 0;
    // Items have pages of their own; or the region has all of its pages, or is about to.
    enum class State : std::uint8_t { by_item, being_filled, whole } state = State::by_item;
  };
  using Regions = std::map<std::uint64_t, Region>;  // by address, in regions
  struct Pages {
    storage::FreePages::Page first = 0;
    storage::FreePages::Page count = 0;
    storage::FreePages::Page own = 0;    // in no region that is counted as a whole
    std::vector<std::uint64_t> to_fill;  // regions
    bool are_there = false;              // all of them
  };

  std::optional<Pages> take_pages(storage::FreePages::Page count);
  void fill_regions(const Pages& pages);
  void give_back(storage::FreePages::Page first, storage::FreePages::Page count,
                 storage::FreePages::Page uncounted);
  void empty(storage::FreePages::Page first, storage::FreePages::Page count);
  // Gives back the pages of whole regions that no item has. True: there were some.
  bool give_back_spare();
  void release(const Kept& kept);
  bool drop_aside();
  static Table merge(Table from, Table& to);
  // Answers what was there.
  Item take(Table& table, ItemId item);

  MemoryBudget& budget_;
  void* mapped_ = nullptr;
  Bytes mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;  // of the first region
  Bytes addresses_ = 0;
  mutable std::mutex mutex_;
  storage::FreePages free_{0};
  storage::HugePages huge_pages_;
  Regions regions_;                                  // in which there is anything
  std::unordered_map<std::uint32_t, Table> tables_;  // by share
  std::map<Aside, Table> aside_;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
