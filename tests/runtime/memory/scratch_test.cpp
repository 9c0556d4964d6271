// Scratch memory: how it is counted, shared and given back.
#include "runtime/memory/scratch.h"

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "doctest/doctest.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::test::scratch_test {
namespace {

TEST_CASE("sizes that are too large to be counted stay so") {
  static_assert(memory::counted_product(Bytes{1} << 31, Bytes{1} << 31) == memory::kUncountable);
  static_assert(memory::counted_product(~Bytes{0}, ~Bytes{0}) == memory::kUncountable);
  static_assert(memory::counted_sum(~Bytes{0}, ~Bytes{0}) == memory::kUncountable);
  static_assert(memory::counted_sum(memory::kUncountable, 1) == memory::kUncountable);
  static_assert(memory::counted_product(3, 5) == 15);
  static_assert(memory::counted_product(0, ~Bytes{0}) == 0);
}

TEST_CASE("small samples take nothing of what is shared, large ones all they need") {
  memory::ScratchBudget budget({100, 1000});
  memory::ScratchCharge small(budget), large(budget);
  small.take(50);
  CHECK_FALSE(small.is_large());
  large.take(1000);
  CHECK(large.is_large());
  large.give_back();
  CHECK_FALSE(large.is_large());
  large.take(51);
  CHECK(large.is_large());
  CHECK(budget.limits().most() == 1000);
}

TEST_CASE("workers take turns, together have no more than there is, and none waits for ever") {
  constexpr Bytes kShared = 1000;
  memory::ScratchBudget budget({10, kShared});
  std::atomic<Bytes> held{0}, most{0};
  std::vector<std::thread> workers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    workers.emplace_back([&, i] {
      Random random(i);
      memory::ScratchCharge charge(budget);
      for (int sample = 0; sample < 2000; ++sample) {
        const Bytes needs = 6 + random.below(kShared - 5);
        charge.take(needs);
        const Bytes now = held += needs;
        for (Bytes before = most; now > before && !most.compare_exchange_weak(before, now);) {
        }
        held -= needs;
        charge.give_back();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  CHECK(most <= kShared);
  CHECK(held == 0);
}

TEST_CASE("memory grows, is dropped, and is none where the machine has none") {
  memory::ScratchMemory memory;
  CHECK(memory.bytes() == 0);
  memory.have(5000)[4999] = std::byte{1};
  CHECK(memory.bytes() == 8192);
  std::byte* const before = memory.data();
  CHECK(memory.have(100) == before);
  memory.drop();
  CHECK(memory.bytes() == 0);
  CHECK_THROWS_AS(memory.have(memory::kUncountable), std::bad_alloc);
  failpoint::configure_failpoints("memory.scratch=fail");
  CHECK_THROWS_AS(memory.have(1), std::bad_alloc);
  failpoint::configure_failpoints("");
  CHECK(memory.bytes() == 0);
  memory.have(1);
}

}  // namespace
}  // namespace batchflow::test::scratch_test
