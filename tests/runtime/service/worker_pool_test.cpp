// Workers that help one another: together they make what one makes, whichever of them made it. A
// task that fails or is given up leaves nothing behind.
#include "runtime/service/backend/worker_pool.h"

#include <doctest/doctest.h>

#include <future>
#include <map>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test::worker_pool_test {
namespace {

constexpr std::uint32_t kSamples = 200;
constexpr const char* kSteps =
    "- {step: decode}\n- {step: random_resized_crop, size: 64}\n- {step: horizontal_flip}\n";

// A task of pictures, some of which are damaged, and workers for it.
class Pool {
 public:
  explicit Pool(std::uint32_t workers, Bytes budget = Bytes{256} << 20,
                const std::string& steps = kSteps)
      : dataset_(sources::RecordKind::whole, {}, std::vector<Bytes>(kSamples, 1)),
        pipeline_(compile(steps, dataset_)),
        layout_(std::make_shared<batch::BlockLayout>(pipeline_->spec(), kSamples)),
        budget_(budget),
        items_(budget_),
        slots_(budget_, [](std::uint64_t) {}),
        workers_(workers) {
    for (std::uint32_t i = 0; i < 8; ++i)
      pictures_.push_back(encode_jpeg(400 + 10 * static_cast<int>(i), 300, {}, i));
    pictures_[3].resize(pictures_[3].size() / 2);
    start();
  }

  service::PreparationTask task(bool keep) {
    service::PreparationTask one;
    one.request = {RequestId(++requests_), 0};
    one.worker = WorkerId(0);
    one.pipeline = pipeline_;
    one.layout = layout_;
    one.slot = *slots_.take(ShareId(0), SlotId(0), layout_->bytes, 1);
    for (std::uint32_t i = 0; i < kSamples; ++i) {
      service::PreparationTask::Sample sample;
      sample.input.sample = sample.wanted = SampleId(i);
      sample.input.bytes = pictures_[i % pictures_.size()];
      sample.input.label = i;
      sample.input.draw_key = hash(7, i);
      sample.index = i;
      sample.keep_decoded = keep;
      sample.bytes = sample.input.bytes.size();
      one.samples.push_back(std::move(sample));
    }
    return one;
  }
  service::PreparationReport run(service::PreparationTask task) {
    pool_->prepare(std::move(task));
    return reported_.get_future().get();
  }
  service::WorkerPool& pool() { return *pool_; }
  std::future<service::PreparationReport> report() { return reported_.get_future(); }
  std::vector<std::byte> made() {
    const std::byte* from = slots_.find(ShareId(0), SlotId(0))->memory();
    return {from, from + layout_->bytes};
  }
  // What was kept is gone; nothing else is.
  void check_empty() {
    pool_.reset();
    items_.drop_all(ShareId(0));
    slots_.free(ShareId(0), SlotId(0));
    CHECK(items_.bytes() == 0);
  }
  // For the next task.
  void start() {
    pool_.reset();
    reported_ = {};
    pool_ = std::make_unique<service::WorkerPool>(
        items_, memory::ScratchLimits{},
        [this](service::PreparationReport report) { reported_.set_value(std::move(report)); },
        [](WorkerId) {});
    for (std::uint32_t i = 0; i < workers_; ++i) REQUIRE(pool_->start(WorkerId(i)));
  }

 private:
  FakeDataset dataset_;
  std::shared_ptr<const prepare::Pipeline> pipeline_;
  std::shared_ptr<const batch::BlockLayout> layout_;
  service::MemoryBudget budget_;
  service::ItemStore items_;
  service::SlotMemory slots_;
  const std::uint32_t workers_;
  std::vector<Encoded> pictures_;
  std::uint64_t requests_ = 0;
  std::promise<service::PreparationReport> reported_;
  std::unique_ptr<service::WorkerPool> pool_;
};

void check_whole(const service::PreparationReport& report) {
  CHECK(report.outcome == engine::Outcome::corrupt);
  CHECK(report.samples == kSamples);
  REQUIRE(report.corrupt.size() == kSamples / 8);
  REQUIRE(report.problems.size() == kSamples / 8);
  for (std::uint32_t i = 0; i < kSamples / 8; ++i) CHECK(report.corrupt[i] == SampleId(8 * i + 3));
}

TEST_CASE("several workers make of a block what one makes of it, sample by sample") {
  for (const bool keep : {false, true}) {
    Pool alone(1), together(4);
    const auto by_one = alone.run(alone.task(keep));
    const auto by_all = together.run(together.task(keep));
    check_whole(by_one);
    check_whole(by_all);
    CHECK(by_one.problems == by_all.problems);
    CHECK(alone.made() == together.made());
    REQUIRE(by_one.decoded.size() == (keep ? kSamples * 7 / 8 : 0));
    REQUIRE(by_all.decoded.size() == by_one.decoded.size());
    std::map<std::uint64_t, service::ItemStore::Item> kept;
    for (const auto& one : by_all.decoded) kept[one.sample.value] = one.item;
    CHECK(kept.size() == by_all.decoded.size());
    for (const auto& one : by_one.decoded) {
      REQUIRE(kept.count(one.sample.value) == 1);
      const auto a = service::ItemStore::bytes_of(one.item);
      const auto b = service::ItemStore::bytes_of(kept[one.sample.value]);
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    }
    // The canary: they did help. One worker's time is the task's.
    CHECK(alone.pool().busy() == by_one.took);
    CHECK(together.pool().busy() > by_all.took);
  }
}

TEST_CASE("a block that is given up is no more than that, and helpers go on with the next") {
  Pool pool(3);
  for (int round = 0; round < 4; ++round) {
    pool.start();
    auto report = pool.report();
    auto task = pool.task(true);
    const engine::Request request = task.request;
    pool.pool().prepare(std::move(task));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    pool.pool().cancel(request);
    const auto given_up = report.get();
    CHECK(given_up.outcome == engine::Outcome::failed);
    CHECK(given_up.problems.empty());
    CHECK(given_up.decoded.empty());
    pool.start();
    check_whole(pool.run(pool.task(true)));
  }
  pool.check_empty();
}

TEST_CASE("a helper that runs out of memory makes the block wait, and not fail") {
  Pool pool(3);
  failpoint::configure_failpoints("service.help.new=fail:1:1");
  auto report = pool.run(pool.task(false));
  failpoint::configure_failpoints("");
  REQUIRE(report.unbegun);
  CHECK(report.problems.empty());
  pool.start();
  check_whole(pool.run(std::move(*report.unbegun)));
}

TEST_CASE("where little may be kept, the block is whole and some of it is kept") {
  Pool pool(3, Bytes{16} << 20);
  const auto report = pool.run(pool.task(true));
  check_whole(report);
  REQUIRE(report.decoded.size() == kSamples * 7 / 8);
  std::size_t kept = 0;
  for (const auto& one : report.decoded) kept += one.item != nullptr;
  CHECK(kept > 0);
  CHECK(kept < report.decoded.size());
}

}  // namespace
}  // namespace batchflow::test::worker_pool_test
