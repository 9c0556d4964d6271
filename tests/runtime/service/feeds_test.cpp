// The feeds of a service, and what the engine knows of them while the service's thread is behind.
#include "runtime/service/datasets/feeds.h"

#include <string>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "runtime/client/batchflow.h"
#include "runtime/feeds/feed_index.h"
#include "tests/runtime/feeds/feed_folder.h"

namespace batchflow::test::feeds_test {
namespace {

constexpr DatasetId kFeed{5};

// What a feed posts never comes.
struct Behind {
  explicit Behind(const feeds::FeedSettings& settings) : folder(settings) {
    service::ServedDataset dataset;
    dataset.id = kFeed;
    dataset.name = "clicks";
    dataset.index = feeds::open_feed("clicks", folder.path());
    served.added(
        dataset, [](const std::function<void()>&) {}, [](const service::LogLine&) {});
    inbox.clear();
  }
  void send(int records) {
    bf_feed_options options = BF_FEED_OPTIONS_INIT;
    options.folder = folder.path().c_str();
    options.producer = "one";
    options.schema = "f32[2]";
    bf_feed* feed = nullptr;
    REQUIRE(bf_feed_open(&options, &feed) == BF_OK);
    const float numbers[] = {1, 2};
    bf_record record = BF_RECORD_INIT;
    record.bytes = numbers;
    record.count = sizeof numbers;
    for (int i = 0; i < records; ++i) CHECK(bf_feed_put(feed, &record) == BF_OK);
    CHECK(bf_feed_flush(feed, 0) == BF_OK);
    bf_feed_close(feed);
  }

  FeedFolder folder;
  service::Inbox inbox;
  service::Feeds served{inbox};
};

feeds::FeedSettings numbers() {
  feeds::FeedSettings settings;
  settings.schema = "f32[2]";
  settings.keep_bytes = 1 << 20;
  return settings;
}

}  // namespace

// Else a job that begins with the newest record begins behind all that the engine knows of, and is
// refused.
TEST_CASE("the engine is told of the records before the one that a job begins with") {
  Behind behind(numbers());
  behind.send(3);
  CHECK(behind.inbox.empty());
  CHECK(behind.served.next_record(kFeed) == 3);
  REQUIRE(behind.inbox.events().size() == 1);
  const auto& grew = std::get<engine::SourceGrew>(behind.inbox.events()[0]);
  CHECK(grew.dataset == kFeed);
  CHECK(grew.end == 3);
  CHECK(behind.served.next_record(kFeed) == 3);
  CHECK(behind.inbox.events().size() == 1);
  CHECK(behind.served.next_record(DatasetId(6)) == 0);
}

TEST_CASE("a job that begins with what is gone is told what is kept") {
  feeds::FeedSettings settings = numbers();
  settings.segment_bytes = 1 << 16;
  Behind behind(settings);
  behind.send(6000);
  CHECK(behind.served.begin_problem(kFeed, 0, false) == "");
  CHECK(behind.served.begin_problem(kFeed, 6000, true) == "");
  CHECK(behind.served.begin_problem(kFeed, 6001, false).find("and the next to come is 6000;") !=
        std::string::npos);
  behind.served.paced({kFeed, 5000, false, std::uint64_t{1} << 32});
  const std::uint64_t first = behind.served.status(kFeed)->state.first;
  REQUIRE(first > 0);
  CHECK(behind.served.begin_problem(kFeed, first, false) == "");
  const std::string gone = behind.served.begin_problem(kFeed, first - 1, false);
  CHECK(gone.find(fmt::format("record {}, which is gone: the first record kept is {}; ask for that",
                              first - 1, first)) != std::string::npos);
  CHECK(behind.served.begin_problem(kFeed, 0, true).find("; begin anew, without a state") !=
        std::string::npos);
  CHECK(behind.served.begin_problem(DatasetId(6), UINT64_MAX, false) == "");
}

TEST_CASE("half of a log has room for a step, where the size of records is known") {
  Behind behind(numbers());
  constexpr std::uint64_t kMost = (1 << 19) / (8 + 64);
  CHECK(behind.served.window_most(kFeed) == kMost / 2);
  CHECK(behind.served.step_problem(kFeed, kMost) == "");
  const std::string problem = behind.served.step_problem(kFeed, kMost + 1);
  CHECK(problem.find("has 7282 records") != std::string::npos);
  CHECK(problem.find("has room for 7281;") != std::string::npos);
  CHECK(behind.served.step_problem(DatasetId(6), UINT64_MAX) == "");
  feeds::FeedSettings bytes = numbers();
  bytes.schema = "bytes";
  bytes.record_bytes = 1 << 18;
  Behind other(bytes);
  CHECK(other.served.step_problem(kFeed, (1 << 20) / 46) == "");  // of a byte each
  const std::string never = other.served.step_problem(kFeed, 1 << 20);
  CHECK(never.find(
            "and the feed's log, which keeps 1048576 bytes, has room for 22795 of one byte;") !=
        std::string::npos);
}

}  // namespace batchflow::test::feeds_test
