// Waits are divided by stage exactly, by a clock of the test's own.
#include "runtime/service/backend/stalls.h"

#include "doctest/doctest.h"

namespace batchflow::test::stalls_test {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  Instant now{};
  service::StallBook book{[this] { return now; }};
  const PipelineId one{0};
  const PipelineId other{3};

  void pass(Duration time) { now += time; }
  void check(const service::StallBook::Wait& wait, Duration storage, Duration preparation,
             Duration delivery, Duration room) const {
    const service::StageTimes times = book.times_of(wait);
    CHECK(times[service::Stage::storage].count() == storage.count());
    CHECK(times[service::Stage::preparation].count() == preparation.count());
    CHECK(times[service::Stage::delivery].count() == delivery.count());
    CHECK(times[service::Stage::room].count() == room.count());
    CHECK(times.sum() == book.lasted(wait));
  }
};

TEST_CASE("a wait is what its pipeline's blocks went through meanwhile, the last stage first") {
  Fixture f;
  f.book.set_workers(2);
  f.pass(5s);
  const auto wait = f.book.begin(f.one);
  f.pass(1s);
  f.book.reading(f.one, 1);
  f.pass(2s);
  f.book.preparing(f.one, 1);  // of another block: the nearer one counts
  f.pass(3s);
  const auto later = f.book.begin(f.one);
  f.book.reading(f.one, -1);
  f.pass(4s);
  f.book.gathering(f.one, 1);
  f.pass(5s);
  f.check(wait, 2s, 7s, 5s, 1s);
  f.check(later, 0s, 4s, 5s, 0s);
  f.book.gathering(f.one, -1);
  f.book.preparing(f.one, -1);
  CHECK(f.book.stage(f.one) == service::Stage::room);
}

TEST_CASE("what others' blocks go through is not counted, unless all workers are busy with them") {
  Fixture f;
  f.book.set_workers(2);
  const auto wait = f.book.begin(f.one);
  f.book.reading(f.other, 1);
  f.book.preparing(f.other, 1);
  f.pass(1s);
  f.check(wait, 0s, 0s, 0s, 1s);
  f.book.preparing(f.other, 1);  // the second of two workers
  f.pass(2s);
  f.check(wait, 0s, 2s, 0s, 1s);
  f.book.set_workers(3);
  f.pass(4s);
  f.check(wait, 0s, 2s, 0s, 5s);
  f.book.set_workers(1);
  f.pass(8s);
  f.check(wait, 0s, 10s, 0s, 5s);
}

TEST_CASE("where nothing is on its way, a live job waits for records, and other jobs for room") {
  Fixture f;
  f.book.set_workers(2);
  const auto live = f.book.begin(f.one, true);
  const auto other = f.book.begin(f.one);
  f.pass(1s);
  CHECK(f.book.stage(f.one, true) == service::Stage::records);
  CHECK(f.book.stage(f.one) == service::Stage::room);
  CHECK(f.book.stage(PipelineId(99), true) == service::Stage::records);
  {
    const service::StallBook::Shortage shortage(f.book, f.one);  // of memory, for both
    CHECK(f.book.stage(f.one, true) == service::Stage::room);
    f.pass(2s);
  }
  f.book.reading(f.one, 1);
  f.pass(4s);
  f.check(other, 4s, 0s, 0s, 3s);
  f.check(live, 4s, 0s, 0s, 2s);
  CHECK(f.book.times_of(live)[service::Stage::records] == 1s);
  CHECK(f.book.times_of(other)[service::Stage::records] == 0s);
}

TEST_CASE("a wait that is not on is nothing, and so is work for no pipeline") {
  Fixture f;
  f.book.reading(PipelineId::none(), 1);
  f.book.preparing(PipelineId::none(), 1);
  f.pass(1s);
  const service::StallBook::Wait none;
  CHECK_FALSE(none.is_on());
  f.check(none, 0s, 0s, 0s, 0s);
  CHECK(f.book.reads_now() == 0);
  CHECK(f.book.stage(PipelineId(99)) == service::Stage::room);
}

TEST_CASE("storage is busy while anything is read; each block's reading counts on its own") {
  Fixture f;
  f.pass(1s);
  f.book.reading(f.one, 1);
  f.pass(2s);
  f.book.reading(f.other, 1);
  f.pass(3s);
  f.book.reading(f.one, -1);
  CHECK(f.book.storage_busy() == 5s);
  CHECK(f.book.reads_lasted() == 8s);
  f.pass(4s);
  CHECK(f.book.storage_busy() == 9s);
  CHECK(f.book.reads_lasted() == 12s);
  f.book.reading(f.other, -1);
  f.pass(100s);
  CHECK(f.book.storage_busy() == 9s);
  CHECK(f.book.reads_lasted() == 12s);
}

}  // namespace
}  // namespace batchflow::test::stalls_test
