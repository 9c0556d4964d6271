// The eviction policy batchflow: what is no longer requested leaves soon, and nothing leaves
// because all jobs have paused.
#include <doctest/doctest.h>

#include "tests/policies/eviction_replay.h"

namespace batchflow::test::eviction_overdue_test {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A share of a thousand items. Those that are read are read in turn, 5 ms apart.
class Reader {
 public:
  // Reads so many items once, from `first` on, and returns how many were there. They are expected
  // again when all of them were read.
  std::uint64_t read(std::uint32_t first, std::uint32_t count) {
    const std::uint64_t hits = share_.counters().hits;
    for (std::uint32_t i = 0; i < count; ++i) {
      now_ += kEach;
      evicted_.clear();
      const Instant next = now_ + count * kEach;
      share_.access({.item = ItemId(first + i),
                     .next_use = static_cast<std::uint64_t>(next.time_since_epoch().count()),
                     .at = now_},
                    evicted_);
    }
    return share_.counters().hits - hits;
  }
  void pause(Duration time) { now_ += time; }

 private:
  static constexpr Duration kEach = milliseconds(5);
  static constexpr Slots kRoom = 1000;
  static constexpr std::size_t kItems = 4000;

  engine::PolicyChoice choice_ =
      policies::policy_list().choose(engine::PolicyKind::eviction, "batchflow");
  engine::Share share_{kItems, kRoom, make_policy(choice_, kItems, kRoom)};
  Instant now_{seconds(1000)};
  std::vector<ItemId> evicted_;
};

}  // namespace

TEST_CASE("items that are not requested any more leave after a few passes over the others") {
  Reader reader;
  for (int pass = 0; pass < 4; ++pass) reader.read(0, 2000);
  CHECK(reader.read(0, 2000) == 1000);
  // They are needed elsewhere now, and others here. A pass takes 10 s.
  reader.read(2000, 2000);
  CHECK(reader.read(2000, 2000) == 0);
  for (int pass = 0; pass < 3; ++pass) reader.read(2000, 2000);
  CHECK(reader.read(2000, 2000) == 1000);
}

TEST_CASE("nothing is overdue because nothing was requested for a while") {
  Reader reader;
  for (int pass = 0; pass < 4; ++pass) reader.read(0, 2000);
  CHECK(reader.read(0, 2000) == 1000);
  reader.pause(seconds(600));
  // The first half is kept. The other comes first now, and misses.
  CHECK(reader.read(1000, 1000) == 0);
  CHECK(reader.read(0, 1000) == 1000);
}

}  // namespace batchflow::test::eviction_overdue_test
