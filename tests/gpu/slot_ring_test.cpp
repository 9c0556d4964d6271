#include "runtime/gpu/slot_ring.h"

#include <doctest/doctest.h>

#include <set>

namespace batchflow::gpu {
namespace {

// A GPU. Its readers end when the test says so.
class FakeEvents final : public SlotEvents {
 public:
  bool record(std::size_t slot, kernels::Stream) override {
    happened.erase(slot);
    ++recorded;
    return records;
  }
  bool has_happened(std::size_t slot) override { return happened.contains(slot); }

  std::set<std::size_t> happened;
  bool records = true;
  int recorded = 0;
};

TEST_CASE("a slot that is read is not given out before its event is seen") {
  FakeEvents events;
  SlotRing ring(2, events);
  CHECK(ring.take() == 0);
  CHECK(ring.take() == 1);
  CHECK_FALSE(ring.take());
  ring.release(0, nullptr);
  ring.release(1, nullptr);
  CHECK(ring.held() == 0);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(ring.take());
  events.happened.insert(1);  // the later reader is done first
  CHECK(ring.take() == 1);
  CHECK_FALSE(ring.take());
  events.happened.insert(0);
  CHECK(ring.take() == 0);
}

TEST_CASE("an event of an earlier use does not free a slot") {
  FakeEvents events;
  SlotRing ring(1, events);
  for (int use = 0; use < 3; ++use) {
    REQUIRE(ring.take() == 0);
    ring.release(0, nullptr);
    CHECK_FALSE(ring.take());
    events.happened.insert(0);
  }
  CHECK(events.recorded == 3);
}

TEST_CASE("a slot that nothing read is free at once, and needs no event") {
  FakeEvents events;
  SlotRing ring(1, events);
  REQUIRE(ring.take() == 0);
  ring.release_unread(0);
  CHECK(ring.take() == 0);
  CHECK(events.recorded == 0);
}

TEST_CASE(
    "a slot without an event, since none could be recorded, is lost, and never written again") {
  FakeEvents events;
  SlotRing ring(2, events);
  REQUIRE(ring.take() == 0);
  events.records = false;
  ring.release(0, nullptr);
  CHECK(ring.lost() == 1);
  events.happened.insert(0);
  CHECK(ring.take() == 1);
  CHECK_FALSE(ring.take());
}

}  // namespace
}  // namespace batchflow::gpu
