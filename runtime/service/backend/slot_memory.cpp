#include "runtime/service/backend/slot_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::service {
namespace {

// Small slots share a slab, so that a job need not map thousands of them.
constexpr Bytes kSlabLeast = Bytes{4} << 20;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

// ------------------------------------------------------------------------------------- slabs ----

SharedSlab::SharedSlab(std::uint64_t id, Bytes slot_bytes, std::uint32_t slots,
                       std::shared_ptr<SlabCharge> charge,
                       std::shared_ptr<storage::HugePages> huge_pages)
    : charge_(std::move(charge)),
      id_(id),
      bytes_(slot_bytes * slots),
      huge_pages_(std::move(huge_pages)),
      filled_(std::make_unique<std::atomic<bool>[]>(slots)),
      descriptor_(memfd_create("batchflow", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (descriptor_ < 0) fail("memfd_create");
  void* memory = MAP_FAILED;
  if (ftruncate(descriptor_, static_cast<off_t>(bytes_)) == 0 &&
      (memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)) !=
          MAP_FAILED &&
      hand_out_readable()) {
    memory_ = static_cast<std::byte*>(memory);
    return;
  }
  const int error = errno;
  if (memory != MAP_FAILED) munmap(memory, bytes_);
  close(descriptor_);
  errno = error;
  fail("a memory file for shared blocks");
}

// From here on a process that is handed the descriptor can only read. A seal against writing would
// also keep the pages from being given back. So it is a descriptor that cannot write, of a file
// that no process may open.
bool SharedSlab::hand_out_readable() {
  constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int readable =
      open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_RDONLY | O_CLOEXEC);
  can_be_emptied_ = readable >= 0 && fchmod(descriptor_, 0) == 0;
  const int seals = can_be_emptied_ ? kFixed : kFixed | F_SEAL_FUTURE_WRITE;
  const bool is_sealed = fcntl(descriptor_, F_ADD_SEALS, seals) == 0;
  if (can_be_emptied_) {
    close(descriptor_);
    descriptor_ = readable;
  } else if (readable >= 0) {
    close(readable);
  }
  return is_sealed;
}

void SharedSlab::drop_charge() {
  if (!is_read_ && can_be_emptied_) charge_->give_back_all();
  charge_.reset();
}

SharedSlab::~SharedSlab() {
  if (!is_read_ && can_be_emptied_) madvise(memory_, bytes_, MADV_REMOVE);
  munmap(memory_, bytes_);
  close(descriptor_);
}

bool Slot::fill() const {
  if (BF_FAILPOINT("service.slot.fill")) return false;
  return slab->fill(offset, bytes);
}

bool SharedSlab::fill(Bytes offset, Bytes bytes) {
  std::atomic<bool>& filled = filled_[offset / bytes];
  if (filled.load(std::memory_order_relaxed)) return true;
  const bool done = huge_pages_->populate(memory_ + offset, bytes);
  filled.store(done, std::memory_order_relaxed);
  return done;
}

// A job that reads what it no longer holds may bring pages of zeros back, which do not count; no
// more than the slabs that it was handed.
bool SharedSlab::empty(Bytes offset, Bytes bytes) {
  if (!can_be_emptied_ || madvise(memory_ + offset, bytes, MADV_REMOVE) != 0) return false;
  filled_[offset / bytes].store(false, std::memory_order_relaxed);
  return true;
}

// --------------------------------------------------------------------------------- slots ----

SlotMemory::SlotMemory(MemoryBudget& budget, std::function<void(std::uint64_t)> gone)
    : budget_(budget), gone_(std::move(gone)) {}

std::optional<Slot> SlotMemory::take(ShareId share, SlotId slot, Bytes bytes,
                                     std::uint64_t audience) {
  const Bytes size = slot_bytes(bytes);
  Pool& pool = pools_[share.value];
  if (pool.slot_bytes != size || pool.audience != audience) {
    for (std::uint32_t part = 0; part < pool.parts.size(); ++part)
      if (pool.parts[part].slab) give_back(pool, part);
    pool = Pool{size, audience, {}, {}, 0};
  }
  pool.unused = 0;
  if (const auto found = pool.taken.find(slot.value); found != pool.taken.end())
    return found->second.slot;

  Part* part = part_with(pool, &Part::free);
  if (part == nullptr) {
    if (!make_room(size)) return std::nullopt;
    part = part_with(pool, &Part::bare);
    if (part == nullptr) part = make_part(pool);
    if (part == nullptr || !part->slab->charge()->take(size)) return std::nullopt;
    part->free.push_back(part->bare.back());
    part->bare.pop_back();
    bytes_ += size;
  }
  const std::uint32_t index = part->free.back();
  part->free.pop_back();
  const Slot made{part->slab, size * index, size};
  pool.taken.emplace(slot.value,
                     Taken{made, static_cast<std::uint32_t>(part - pool.parts.data()), index});
  return made;
}

SlotMemory::Part* SlotMemory::part_with(Pool& pool, std::vector<std::uint32_t> Part::*slots) {
  const auto found = std::find_if(pool.parts.begin(), pool.parts.end(), [&](const Part& one) {
    return one.slab && !(one.*slots).empty();
  });
  return found == pool.parts.end() ? nullptr : &*found;
}

SlotMemory::Part* SlotMemory::make_part(Pool& pool) {
  const auto slots = static_cast<std::uint32_t>(std::max<Bytes>(1, kSlabLeast / pool.slot_bytes));
  std::shared_ptr<SharedSlab> slab = make_slab(pool.slot_bytes, slots);
  if (!slab) return nullptr;
  auto part =
      std::find_if(pool.parts.begin(), pool.parts.end(), [](const Part& one) { return !one.slab; });
  if (part == pool.parts.end()) part = pool.parts.emplace(pool.parts.end());
  *part = Part{std::move(slab), {}, {}, slots};
  for (std::uint32_t i = slots; i-- > 0;) part->bare.push_back(i);
  return &*part;
}

std::vector<SlotMemory::Use> SlotMemory::uses() const {
  std::vector<Use> all;
  for (const auto& [share, pool] : pools_) {
    Use& use = all.emplace_back(Use{ShareId(share), 0, pool.taken.size(), 0});
    for (const Part& part : pool.parts) {
      if (part.slab) use.slots += part.counted();
    }
    use.bytes = use.slots * pool.slot_bytes;
  }
  return all;
}

const Slot* SlotMemory::find(ShareId share, SlotId slot) const {
  const auto pool = pools_.find(share.value);
  if (pool == pools_.end()) return nullptr;
  const auto found = pool->second.taken.find(slot.value);
  return found == pool->second.taken.end() ? nullptr : &found->second.slot;
}

void SlotMemory::free(ShareId share, SlotId slot) {
  const auto found = pools_.find(share.value);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  const auto taken = pool.taken.find(slot.value);
  if (taken == pool.taken.end()) return;
  const std::uint32_t part = taken->second.part;
  pool.parts[part].free.push_back(taken->second.index);
  pool.taken.erase(taken);
}

bool SlotMemory::make_room(Bytes bytes) {
  const auto there = [&] { return budget_.has_room(bytes); };
  if (there()) return true;
  for (auto& [id, pool] : pools_) {
    for (std::uint32_t part = 0; part < pool.parts.size(); ++part) {
      if (!pool.parts[part].is_free()) continue;
      give_back(pool, part);
      if (there()) return true;
    }
  }
  for (auto& [id, pool] : pools_) {
    for (Part& part : pool.parts) {
      while (part.slab && empty_one(pool, part)) {
        if (there()) return true;
      }
    }
  }
  return false;
}

void SlotMemory::give_back_unused() {
  for (auto next = pools_.begin(); next != pools_.end();) {
    const auto at = next++;
    Pool& pool = at->second;
    pool.unused = pool.taken.empty() ? pool.unused + 1 : 0;
    if (pool.unused <= kUnusedMost) continue;
    for (std::uint32_t part = 0; part < pool.parts.size(); ++part)
      if (pool.parts[part].slab) give_back(pool, part);
    pools_.erase(at);
  }
}

// Takes the pages back of a free slot, in a slab that still has others in use.
bool SlotMemory::empty_one(const Pool& pool, Part& part) {
  if (part.free.empty()) return false;
  const std::uint32_t index = part.free.back();
  if (!part.slab->empty(pool.slot_bytes * index, pool.slot_bytes)) return false;
  part.free.pop_back();
  part.bare.push_back(index);
  part.slab->charge()->give_back(pool.slot_bytes);
  bytes_ -= pool.slot_bytes;
  return true;
}

std::shared_ptr<SharedSlab> SlotMemory::make_slab(Bytes slot_bytes, std::uint32_t slots) {
  if (BF_FAILPOINT("service.slab.make")) return nullptr;
  try {
    return {new SharedSlab(next_slab_++, slot_bytes, slots, std::make_shared<SlabCharge>(budget_),
                           huge_pages_),
            [unmapper = unmapper_](SharedSlab* slab) {
              slab->drop_charge();
              unmapper->add(std::unique_ptr<SharedSlab>(slab));
            }};
  } catch (const std::system_error&) {
    return nullptr;  // no descriptors, or no memory
  }
}

void SlotMemory::give_back(Pool& pool, std::uint32_t index) {
  Part& part = pool.parts[index];
  bytes_ -= part.counted() * pool.slot_bytes;
  gone_(part.slab->id());
  if (part.is_free()) part.slab->note_unread();
  part.slab.reset();
}

Unmapper::Unmapper() : thread_([this] { run(); }) {}

Unmapper::~Unmapper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Unmapper::add(std::unique_ptr<SharedSlab> slab) {
  const std::lock_guard lock(mutex_);
  slabs_.push_back(std::move(slab));
  changed_.notify_all();
}

void Unmapper::run() {
  pthread_setname_np(pthread_self(), "bf-unmap");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !slabs_.empty(); });
    if (slabs_.empty()) return;
    auto slabs = std::exchange(slabs_, {});
    lock.unlock();
    slabs.clear();
    lock.lock();
  }
}

}  // namespace batchflow::service
