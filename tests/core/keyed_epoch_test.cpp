#include "core/order/keyed_epoch.h"

#include <doctest/doctest.h>

#include <vector>

namespace batchflow::test::keyed_epoch_test {

namespace {

using order::Draw;
using order::KeyedEpoch;

Draw draw_of(KeyedEpoch& epoch, std::uint64_t index) {
  Draw draw;
  epoch.fill(index, {&draw, 1});
  return draw;
}

}  // namespace

TEST_CASE("an index has the sample that was asked for, and a draw of its own") {
  KeyedEpoch epoch(7);
  CHECK(!epoch.has(0));
  const std::vector<SampleId> keys{SampleId(5), SampleId(2), SampleId(5)};
  epoch.ask(keys);
  CHECK(epoch.asked() == 3);
  CHECK(draw_of(epoch, 0) == Draw{SampleId(5), 0});
  CHECK(draw_of(epoch, 2) == Draw{SampleId(5), 2});
  CHECK(!epoch.has(3));
  epoch.forget(2);
  CHECK(!epoch.has(1));
  CHECK(draw_of(epoch, 2) == Draw{SampleId(5), 2});
  CHECK(epoch.asked() == 3);
}

TEST_CASE("keys beyond an epoch are the first ones of the next, and no draw comes again") {
  KeyedEpoch epoch(7);
  const std::uint64_t before = epoch.generation();
  for (std::uint64_t i = 0; i < KeyedEpoch::kBlocks + 2; ++i) {
    const SampleId key(i);
    epoch.ask({&key, 1});
  }
  epoch.forget(KeyedEpoch::kBlocks);
  epoch.begin_next_epoch();
  CHECK(epoch.generation() != before);
  CHECK(epoch.asked() == 2);
  CHECK(draw_of(epoch, 1) == Draw{SampleId(KeyedEpoch::kBlocks + 1), KeyedEpoch::kBlocks + 1});
  CHECK(!epoch.has(2));
}

}  // namespace batchflow::test::keyed_epoch_test
