#include "runtime/service/backend/slot_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::test::slot_memory_test {
namespace {

constexpr Bytes kMib = Bytes{1} << 20;
constexpr ShareId kShare{4};

Bytes mapped_slabs() {
  std::ifstream maps("/proc/self/smaps");
  bool of_slab = false;
  Bytes resident = 0, kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) of_slab = line.find("/memfd:batchflow") != line.npos;
    if (of_slab && std::sscanf(line.c_str(), "Rss: %lu", &kib) == 1) resident += kib * 1024;
  }
  return resident;
}

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

TEST_CASE("slabs that nothing is in go back after some seconds, and those in use stay") {
  service::MemoryBudget budget(64 * kMib);
  std::vector<std::uint64_t> gone;
  service::SlotMemory slots(budget, [&](std::uint64_t slab) { gone.push_back(slab); });
  const ShareId other{5};
  const std::uint64_t left = slots.take(kShare, SlotId(0), 8 * kMib, 1)->slab->id();
  REQUIRE(slots.take(other, SlotId(0), 8 * kMib, 2));
  slots.free(kShare, SlotId(0));
  for (int second = 0; second < 4; ++second) slots.give_back_unused();
  CHECK(gone.empty());
  REQUIRE(slots.take(kShare, SlotId(1), 8 * kMib, 1));  // it is in use again
  slots.free(kShare, SlotId(1));
  for (int second = 0; second < 5; ++second) slots.give_back_unused();
  CHECK(gone.empty());
  slots.give_back_unused();
  CHECK(gone == std::vector{left});
  CHECK(slots.bytes() == 8 * kMib);
  CHECK(budget.used() == 8 * kMib);
  CHECK(slots.find(other, SlotId(0)));
  CHECK(slots.take(kShare, SlotId(0), 8 * kMib, 1));
}

TEST_CASE("a slab that is given back has no pages any more, though a job still maps it") {
  service::MemoryBudget budget(64 * kMib);
  std::vector<std::uint64_t> gone;
  service::SlotMemory slots(budget, [&](std::uint64_t slab) { gone.push_back(slab); });
  auto slot = slots.take(kShare, SlotId(0), 32 * kMib, 1);
  REQUIRE(slot);
  const std::uint64_t slab = slot->slab->id();
  std::memset(slot->memory(), 7, slot->bytes);
  auto handed = slot->slab->charge();  // as jobs that were handed its descriptor hold it
  // They can read it, and nothing else.
  const int descriptor = fcntl(slot->slab->descriptor(), F_DUPFD_CLOEXEC, 3);
  CHECK(mmap(nullptr, kMib, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) == MAP_FAILED);
  CHECK(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  void* const mapped = mmap(nullptr, 32 * kMib, PROT_READ, MAP_SHARED, descriptor, 0);
  REQUIRE(mapped != MAP_FAILED);
  CHECK(mprotect(mapped, kMib, PROT_READ | PROT_WRITE) != 0);
  const auto pages = [&] {
    struct stat status {};
    REQUIRE(fstat(descriptor, &status) == 0);
    return status.st_blocks * 512 / 4096;
  };
  CHECK(pages() == 32 * kMib / 4096);
  slot.reset();
  // What is in use is not given back, however little is left.
  CHECK_FALSE(slots.make_room(48 * kMib));
  CHECK(gone.empty());
  CHECK(static_cast<const char*>(mapped)[kMib] == 7);
  slots.free(kShare, SlotId(0));
  CHECK(budget.used() == 32 * kMib);  // for what comes next
  CHECK(slots.make_room(48 * kMib));
  CHECK(gone == std::vector{slab});
  CHECK(slots.bytes() == 0);
  CHECK(budget.used() == 0);
  CHECK(slots.take(kShare, SlotId(1), 48 * kMib, 1));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pages() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(pages() == 0);
  handed.reset();
  CHECK(budget.used() == 48 * kMib);
  munmap(mapped, 32 * kMib);
  close(descriptor);
}

TEST_CASE("a service that ends leaves jobs the batches that they hold") {
  service::MemoryBudget budget(64 * kMib);
  auto slots = std::make_unique<service::SlotMemory>(budget, [](std::uint64_t) {});
  auto slot = slots->take(kShare, SlotId(0), kMib, 1);
  REQUIRE(slot);
  std::memset(slot->memory(), 7, slot->bytes);
  void* const mapped = mmap(nullptr, kMib, PROT_READ, MAP_SHARED, slot->slab->descriptor(), 0);
  REQUIRE(mapped != MAP_FAILED);
  slot.reset();
  slots.reset();
  CHECK(static_cast<const char*>(mapped)[kMib - 1] == 7);
  munmap(mapped, kMib);
}

TEST_CASE("a slab that no job maps is unmapped beside the thread that gives it back") {
  constexpr Bytes kSlab = 64 * kMib;
  service::MemoryBudget budget(kSlab);
  service::SlotMemory slots(budget, [](std::uint64_t) {});
  const auto give_back = [&] {
    {
      const auto slot = slots.take(kShare, SlotId(0), kSlab, 1);
      REQUIRE(slot);
      REQUIRE(slot->fill());
      std::memset(slot->memory(), 7, slot->bytes);
    }
    slots.free(kShare, SlotId(0));
    const double began = thread_ms();
    CHECK(slots.make_room(kSlab));
    return thread_ms() - began;
  };
  const double took = give_back();
  CHECK(budget.used() == 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (mapped_slabs() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(mapped_slabs() == 0);

  // What it would have taken here.
  const auto charge = std::make_shared<service::SlabCharge>(budget);
  auto slab = std::make_unique<service::SharedSlab>(1, kSlab, 1, charge,
                                                    std::make_shared<storage::HugePages>());
  std::memset(slab->memory(), 7, kSlab);
  const double began = thread_ms();
  slab.reset();
  const double instead = thread_ms() - began;
  MESSAGE(fmt::format("{:.3f} ms instead of {:.3f}", took, instead));
  CHECK(took < instead / 4);
}

// Sixteen slots share a slab. What the engine has taken from one share it gives to another, though
// the first still has a slot in each slab.
TEST_CASE("free slots of a slab that is in use lose their pages where others need them") {
  constexpr Bytes kSlot = kMib / 4;
  service::MemoryBudget budget(32 * kSlot);
  service::SlotMemory slots(budget, [](std::uint64_t) {});
  std::vector<service::Slot> held;
  for (std::uint32_t i = 0; i < 32; ++i) {
    held.push_back(slots.take(kShare, SlotId(i), kSlot, 1).value());
    REQUIRE(held.back().fill());
    std::memset(held.back().memory(), 7, kSlot);
    CHECK(budget.used() == (i + 1) * kSlot);  // a slot counts from its first use on
  }
  CHECK_FALSE(slots.take(kShare, SlotId(32), kSlot, 1));
  for (std::uint32_t i = 0; i < 32; ++i)
    if (i % 16 != 3) slots.free(kShare, SlotId(i));
  CHECK(budget.used() == 32 * kSlot);
  const Bytes before = mapped_slabs();
  std::vector<service::Slot> others;
  for (std::uint32_t i = 0; i < 30; ++i)
    others.push_back(slots.take(ShareId(5), SlotId(i), kSlot, 2).value());
  CHECK_FALSE(slots.take(ShareId(5), SlotId(30), kSlot, 2));
  CHECK(budget.used() == 32 * kSlot);
  CHECK(slots.bytes() == 32 * kSlot);
  CHECK(mapped_slabs() == before - 30 * kSlot);
  for (const std::uint32_t i : {3u, 19u}) CHECK(held[i].memory()[kSlot - 1] == std::byte{7});
  // And back again: a slot that has lost its pages gets them anew.
  others.clear();
  for (std::uint32_t i = 0; i < 30; ++i) slots.free(ShareId(5), SlotId(i));
  for (std::uint32_t i = 0; i < 32; ++i) {
    const auto slot = slots.take(kShare, SlotId(i), kSlot, 1);
    REQUIRE(slot);
    REQUIRE(slot->fill());
    slot->memory()[0] = std::byte{1};
  }
  CHECK(budget.used() == 32 * kSlot);
}

TEST_CASE("without pages a slot is not filled, and its memory is of use again later") {
  service::MemoryBudget budget(8 * kMib);
  service::SlotMemory slots(budget, [](std::uint64_t) {});
  const auto slot = slots.take(kShare, SlotId(0), kMib, 1);
  REQUIRE(slot);
  failpoint::configure_failpoints("service.slot.fill=fail:1:1");
  CHECK_FALSE(slot->fill());
  CHECK(slot->fill());
  failpoint::configure_failpoints("");
}

}  // namespace
}  // namespace batchflow::test::slot_memory_test
