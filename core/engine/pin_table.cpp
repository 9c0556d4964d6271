#include "core/engine/pin_table.h"

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::engine {

std::size_t PinTable::home(std::uint32_t item) const {
  return static_cast<std::size_t>((item * kGolden) >> 32) & mask();
}

std::size_t PinTable::find(std::uint32_t item) const {
  std::size_t at = home(item);
  while (entries_[at].count != 0 && entries_[at].item != item) at = (at + 1) & mask();
  return at;
}

std::uint32_t PinTable::count(ItemId item) const {
  return size_ == 0 ? 0 : entries_[find(item.value)].count;
}

std::uint32_t PinTable::add(ItemId item) {
  // At most half full: a pin looks for its entry three times in its life.
  if (2 * (size_ + 1) > entries_.size()) double_up();
  Entry& entry = entries_[find(item.value)];
  if (entry.count == 0) ++size_;
  entry.item = item.value;
  return ++entry.count;
}

std::uint32_t PinTable::drop(ItemId item) {
  const std::size_t at = size_ == 0 ? 0 : find(item.value);
  BF_CHECK_MSG(size_ > 0 && entries_[at].count > 0,
               "an item was unpinned more often than it was pinned");
  const std::uint32_t left = --entries_[at].count;
  if (left == 0) erase(at);
  return left;
}

// Closes the gap at `at`: an entry that would not be found across the gap moves into it.
void PinTable::erase(std::size_t at) {
  --size_;
  std::size_t next = (at + 1) & mask();
  while (entries_[next].count != 0) {
    const std::size_t wanted = home(entries_[next].item);
    if (((next - wanted) & mask()) >= ((next - at) & mask())) {
      entries_[at] = entries_[next];
      at = next;
    }
    next = (next + 1) & mask();
  }
  entries_[at].count = 0;
}

void PinTable::double_up() {
  std::vector<Entry> old(entries_.empty() ? 16 : 2 * entries_.size());
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.count != 0) entries_[find(entry.item)] = entry;
  }
}

}  // namespace batchflow::engine
