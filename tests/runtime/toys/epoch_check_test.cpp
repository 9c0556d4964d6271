#include "runtime/toys/epoch_check.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace batchflow::test::epoch_check_test {
namespace {

struct Batch {
  std::vector<std::uint64_t> wanted;
  std::vector<std::uint8_t> marks;
  bf_batch batch = BF_BATCH_INIT;

  Batch(std::uint32_t epoch, std::initializer_list<std::uint64_t> ids, bool last = false)
      : wanted(ids), marks(ids.size()) {
    batch.epoch = epoch;
    batch.last_of_epoch = last ? 1 : 0;
    batch.samples = static_cast<std::uint32_t>(ids.size());
    batch.wanted = wanted.data();
    batch.marks = marks.data();
  }
};

}  // namespace

TEST_CASE("ranks that together have each sample once, in each epoch, are right") {
  toys::EpochCheck check(6, 2, true);
  CHECK(check.add(Batch(0, {0, 3}).batch) == "");
  CHECK(check.add(Batch(0, {1, 4}, true).batch) == "");  // a rank may be an epoch ahead
  CHECK(check.add(Batch(1, {0, 1, 2}, true).batch) == "");
  CHECK(check.add(Batch(0, {5, 2}, true).batch) == "");
  CHECK(check.add(Batch(1, {3, 4, 5}, true).batch) == "");
}

TEST_CASE("canary: a sample that comes twice, never, or does not exist is found") {
  toys::EpochCheck twice(3, 1, true);
  CHECK(twice.add(Batch(0, {0, 1}).batch) == "");
  CHECK(twice.add(Batch(0, {1, 2}, true).batch) == "sample 1 was delivered twice in epoch 0");
  toys::EpochCheck never(3, 1, true);
  CHECK(never.add(Batch(2, {0, 1}, true).batch) == "2 of 3 samples were delivered in epoch 2");
  toys::EpochCheck beyond(3, 1, true);
  CHECK(beyond.add(Batch(0, {3}).batch) == "sample 3 of 3 was delivered");
}

TEST_CASE("fillers count for nothing, and an epoch that drops its last may be short") {
  toys::EpochCheck check(4, 1, true);
  Batch last(0, {0, 1, 2, 3, 0}, true);
  last.marks[4] = BF_MARK_FILLER;
  CHECK(check.add(last.batch) == "");
  toys::EpochCheck drops(5, 1, false);
  CHECK(drops.add(Batch(0, {0, 1, 2, 3}, true).batch) == "");
}

}  // namespace batchflow::test::epoch_check_test
