// The log of a feed: what is durable stays, what is torn goes, and each record is there once.
#include "runtime/feeds/feed_log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_settings.h"
#include "runtime/protocol/feed_hello.h"
#include "tests/runtime/feeds/feed_folder.h"

namespace batchflow::test::feed_log_test {

namespace {

using feeds::FeedLog;
using feeds::FeedSettings;
using feeds::Taken;

constexpr std::uint64_t kAll = std::uint64_t{1} << 32;

std::string content(std::uint64_t n) {
  return "record " + std::to_string(n) + std::string(n % 50, 'x');
}

Taken take(FeedLog& log, std::uint64_t sequence, std::string_view text, std::uint64_t producer = 1,
           std::uint64_t part = kAll) {
  protocol::FeedRecordHead head;
  head.sequence = sequence;
  head.key = sequence;
  head.label = static_cast<std::int32_t>(sequence % 7);
  return log.take(producer, head, std::as_bytes(std::span(text)), part);
}

void commit(FeedLog& log) {
  REQUIRE(log.write() == "");
  REQUIRE(log.sync() == "");
}

// The last file of the log.
std::string last_file(const std::string& folder) {
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("records.")) last = std::max(last, entry.path().string());
  }
  return last;
}

}  // namespace

TEST_CASE("records are found after they are durable, and after the log was opened again") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 0; n < 100; ++n) CHECK(take(*log, n + 1, content(n)) == Taken::taken);
    CHECK(log->end_record() == 0);
    CHECK(!log->find(0));
    REQUIRE(log->write() == "");
    CHECK(log->end_record() == 0);
    CHECK(log->durable_sequence(1) == 0);
    REQUIRE(log->sync() == "");
    CHECK(log->end_record() == 100);
    CHECK(log->durable_sequence(1) == 100);
    CHECK(record_text(*log, 42) == content(42));
  }
  const auto log = folder.open();
  CHECK(log->end_record() == 100);
  CHECK(log->durable_sequence(1) == 100);
  CHECK(log->counts().taken == 100);
  for (std::uint64_t n = 0; n < 100; ++n) CHECK(record_text(*log, n) == content(n));
  CHECK(log->find(99)->label == 100 % 7);
  CHECK(!log->find(100));
}

TEST_CASE("a record that is sent again is dropped and counted, also after a crash") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    CHECK(take(*log, 1, "a") == Taken::taken);
    CHECK(take(*log, 1, "a") == Taken::doubled);
    CHECK(take(*log, 5, "b") == Taken::taken);  // a gap is the producer's own
    CHECK(take(*log, 3, "c") == Taken::doubled);
    CHECK(take(*log, 1, "a", 2) == Taken::taken);  // of another producer
    commit(*log);
  }
  const auto log = folder.open();
  CHECK(take(*log, 5, "b") == Taken::doubled);
  CHECK(take(*log, 6, "d") == Taken::taken);
  CHECK(log->counts().doubled == 3);
  CHECK(log->counts().taken == 4);
}

TEST_CASE("late, thinned and malformed records are left out, and their counts survive") {
  FeedSettings settings;
  settings.schema = "uint8[4]";
  settings.late_after = std::chrono::seconds(1);
  CHECK_THROWS_AS(FeedFolder{settings}, feeds::FeedError);
  settings.schema = "u8[4]";
  const FeedFolder folder(settings);
  {
    const auto log = folder.open();
    protocol::FeedRecordHead head;
    head.sequence = 1;
    head.time_ns = 5'000'000'000;
    const std::string four = "abcd";
    const auto bytes = std::as_bytes(std::span(four));
    CHECK(log->take(1, head, bytes, kAll) == Taken::taken);
    head.sequence = 2;
    head.time_ns = 3'999'999'999;
    CHECK(log->take(1, head, bytes, kAll) == Taken::late);
    head.sequence = 3;
    head.time_ns = 4'000'000'000;
    CHECK(log->take(1, head, bytes, kAll) == Taken::taken);
    head.sequence = 4;
    head.time_ns = 9'000'000'000;
    CHECK(log->take(1, head, bytes.first(3), kAll) == Taken::malformed);
    head.sequence = 5;
    CHECK(log->take(1, head, bytes, 0) == Taken::thinned);
    commit(*log);
    // What was left out is acknowledged, too: it was counted.
    CHECK(log->durable_sequence(1) == 5);
  }
  const auto log = folder.open();
  const feeds::LogCounts counts = log->counts();
  CHECK(counts.taken == 2);
  CHECK(counts.late == 1);
  CHECK(counts.malformed == 1);
  CHECK(counts.thinned == 1);
  CHECK(log->last_sequence(1) == 5);
}

TEST_CASE("a record with a time of the future makes no others late, also after a restart") {
  FeedSettings settings;
  settings.late_after = std::chrono::seconds(600);
  const FeedFolder folder(settings);
  const std::string text = "x";
  const auto taken_at = [&](FeedLog& log, std::uint64_t sequence, std::int64_t time_ns) {
    protocol::FeedRecordHead head;
    head.sequence = sequence;
    head.time_ns = time_ns;
    return log.take(1, head, std::as_bytes(std::span(text)), kAll);
  };
  const std::int64_t now = protocol::record_time_ns();
  const std::int64_t day = std::int64_t{86'400} * 1'000'000'000;
  {
    const auto log = folder.open();
    CHECK(taken_at(*log, 1, now + day) == Taken::taken);
    CHECK(taken_at(*log, 2, now) == Taken::taken);
    commit(*log);
  }
  const auto log = folder.open();
  CHECK(taken_at(*log, 3, now) == Taken::taken);
  CHECK(taken_at(*log, 4, now - day) == Taken::late);
}

TEST_CASE("a file that was torn as it began forgets no producer once those before it are gone") {
  constexpr std::uint64_t kProducers = 100;
  const FeedFolder folder(small_files(1 << 15));
  std::string last;
  std::uint64_t records = 0;
  {
    const auto log = folder.open();
    for (std::uint64_t id = 1; id <= kProducers; ++id) take(*log, 9, "x", id);
    records = kProducers;
    commit(*log);
    const std::string first = last_file(folder.path());
    while (last_file(folder.path()) == first) {
      take(*log, 10 + records, std::string(1 << 15, 'y'));
      commit(*log);
      ++records;
    }
    last = last_file(folder.path());
  }
  // As a machine leaves it that dies meanwhile: without the states of most, and without a record.
  std::filesystem::resize_file(last, 32 + 5 * 65 + 7);
  {
    const auto log = folder.open();
    CHECK(log->cut() == 7);
    REQUIRE(log->end_record() == records - 1);
    log->drop_before(records - 1);
    CHECK(log->first() == records - 1);
  }
  const auto log = folder.open();
  CHECK(log->cut() == 0);
  for (std::uint64_t id = 2; id <= kProducers; ++id) CHECK(log->last_sequence(id) == 9);
}

TEST_CASE("thinning takes the part of all keys that it says") {
  const FeedFolder folder;
  const auto log = folder.open();
  std::uint64_t taken = 0;
  for (std::uint64_t n = 1; n <= 4000; ++n)
    taken += take(*log, n, "x", 1, kAll / 4) == Taken::taken ? 1 : 0;
  // 1000 are expected, with a deviation of 27.
  CHECK(taken > 865);
  CHECK(taken < 1135);
}

TEST_CASE("a torn end is cut at each of its bytes, and what was acknowledged stays") {
  const FeedFolder folder;
  Bytes whole = 0;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 0; n < 3; ++n) take(*log, n + 1, content(n));
    commit(*log);
    whole = log->kept();
    take(*log, 4, content(3));
    commit(*log);
  }
  const std::string file = last_file(folder.path());
  const Bytes all = std::filesystem::file_size(file);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (Bytes size = whole; size < all; ++size) {
    CAPTURE(size);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes.substr(0, size);
    const auto log = folder.open();
    CHECK(log->end_record() == 3);
    CHECK(log->cut() == size - whole);
    CHECK(record_text(*log, 2) == content(2));
    // The producer sends it again.
    CHECK(take(*log, 4, content(3)) == Taken::taken);
    commit(*log);
    CHECK(record_text(*log, 3) == content(3));
  }
}

TEST_CASE("a damaged record ends what is recovered of the last file") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 0; n < 10; ++n) take(*log, n + 1, content(n));
    commit(*log);
    const auto place = log->find(4);
    std::fstream file(folder.path() + "/" + std::string(log->file_name(place->file)),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place->offset));
    file.put('#');
  }
  const auto log = folder.open();
  CHECK(log->end_record() == 4);
  CHECK(log->cut() > 0);
}

TEST_CASE(
    "files roll over, begin with what is known of producers, and go when nothing needs them") {
  const FeedFolder folder(small_files());
  const std::string large(3000, 'y');
  {
    const auto log = folder.open();
    take(*log, 7, "of another producer", 9);
    for (std::uint64_t n = 1; n <= 100; ++n) {
      take(*log, n, large);
      commit(*log);
    }
    CHECK(log->kept() > 300'000);
    log->drop_before(50);
    CHECK(log->first() > 20);
    CHECK(log->first() <= 50);
    CHECK(!log->find(0));
    CHECK(record_text(*log, 60) == large);
  }
  const auto log = folder.open();
  CHECK(log->end_record() == 101);
  CHECK(log->last_sequence(9) == 7);  // though the file of its record is gone
  CHECK(log->last_sequence(1) == 100);
  CHECK(log->counts().taken == 101);
}

// Before, all of a burst lay in one file, which stays while it is the last: a small log was full
// for good, and its producers waited for ever.
TEST_CASE("a burst lies in files of their size, and all but the last of them can go") {
  const FeedFolder folder(small_files());
  const Bytes file = small_files().segment_bytes;
  constexpr std::uint64_t kRecords = 400;  // of 3.6 MB, where the log is to keep 1 MiB
  const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(9000, 'y'); };
  {
    const auto log = folder.open();
    for (std::uint64_t n = 0; n < kRecords; ++n) take(*log, n + 1, text(n));
    take(*log, 1, "", 2);  // is left out, and counted
    CHECK(log->waiting() > kRecords * 9000);
    commit(*log);
    CHECK(log->waiting() == 0);
    CHECK(log->end_record() == kRecords);
    CHECK(log->durable_sequence(1) == kRecords);
    for (std::uint64_t n = 0; n < kRecords; ++n) {
      REQUIRE(record_text(*log, n) == text(n));
      CHECK(log->file_bytes(log->find(n)->file) <= file);
    }
    log->drop_before(kRecords);
    CHECK(log->kept() <= file);
    CHECK(log->first() > kRecords - 10);
  }
  const auto log = folder.open();
  CHECK(log->end_record() == kRecords);
  CHECK(log->last_sequence(1) == kRecords);
  CHECK(log->last_sequence(2) == 1);
  CHECK(log->counts() == feeds::LogCounts{kRecords, 0, 0, 0, 1});
}

TEST_CASE("what is seen of a log is of one moment: it has not ended before its last records") {
  const FeedFolder folder;
  const auto log = folder.open();
  take(*log, 1, "one");
  log->end();
  CHECK(!log->state().ended);
  commit(*log);
  const feeds::FeedState state = log->state();
  CHECK(state.first == 0);
  CHECK(state.end == 1);
  CHECK(state.kept == log->kept());
  CHECK(state.ended);
}

// What a producer is not told of it sends again, as the client's library does.
TEST_CASE("a file that cannot be begun loses nothing that was acknowledged, and doubles nothing") {
  for (const char* const fails :
       {"feed.roll=fail:1:2", "feed.full=fail:1:2", "feed.roll=fail", "feed.full=fail"}) {
    CAPTURE(fails);
    const bool is_for_good = std::string_view(fails).find(':') == std::string_view::npos;
    const FeedFolder folder(small_files());
    const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(3000, 'y'); };
    constexpr std::uint64_t kRecords = 60;  // in three files
    std::uint64_t acknowledged = 0;
    {
      const auto log = folder.open();
      for (std::uint64_t n = 0; n < 20; ++n) take(*log, n + 1, text(n));
      commit(*log);
      const Bytes before = log->kept();
      failpoint::configure_failpoints(fails);
      for (std::uint64_t n = 20; n < kRecords; ++n) take(*log, n + 1, text(n));
      const Bytes waits = log->waiting();
      for (int i = 0; i < 2; ++i) {
        CHECK(log->write() != "");
        CHECK(log->waiting() == waits);
        REQUIRE(log->sync() == "");
        CHECK(log->end_record() == 20);
        CHECK(log->durable_sequence(1) == 20);
        CHECK(log->kept() == before);
        CHECK(record_text(*log, 19) == text(19));
      }
      if (!is_for_good) commit(*log);
      acknowledged = log->durable_sequence(1);
      CHECK(acknowledged == (is_for_good ? 20 : kRecords));
    }
    failpoint::configure_failpoints("");
    const auto log = folder.open();  // also what was begun and given up leaves nothing behind
    CHECK(log->cut() == 0);
    CHECK(log->end_record() == acknowledged);
    for (std::uint64_t n = acknowledged; n < kRecords; ++n) take(*log, n + 1, text(n));
    commit(*log);
    REQUIRE(log->end_record() == kRecords);
    for (std::uint64_t n = 0; n < kRecords; ++n) CHECK(record_text(*log, n) == text(n));
  }
}

// The second file can be begun, and the third cannot.
TEST_CASE("of a burst that is written in part, that part alone is acknowledged") {
  const FeedFolder folder(small_files());
  const auto text = [](std::uint64_t n) { return std::to_string(n) + std::string(3000, 'y'); };
  std::uint64_t acknowledged = 0;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 0; n < 60; ++n) take(*log, n + 1, text(n));
    // The first file has room for the first part; the second part needs another.
    failpoint::configure_failpoints("feed.roll=fail:1:1");
    CHECK(log->write() != "");
    failpoint::configure_failpoints("");
    REQUIRE(log->sync() == "");
    acknowledged = log->durable_sequence(1);
    CHECK(acknowledged > 0);
    CHECK(acknowledged < 60);
    CHECK(log->end_record() == acknowledged);
  }
  const auto log = folder.open();
  CHECK(log->end_record() == acknowledged);
  CHECK(log->last_sequence(1) == acknowledged);
  CHECK(log->counts().taken == acknowledged);
  for (std::uint64_t n = 0; n < 60; ++n)
    CHECK(take(*log, n + 1, text(n)) == (n < acknowledged ? Taken::doubled : Taken::taken));
  commit(*log);
  REQUIRE(log->end_record() == 60);
  for (std::uint64_t n = 0; n < 60; ++n) CHECK(record_text(*log, n) == text(n));
}

TEST_CASE("a file that is missing in the middle is said, and not passed over") {
  const FeedFolder folder(small_files());
  std::string middle;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 1; n <= 100; ++n) {
      take(*log, n, std::string(3000, 'y'));
      commit(*log);
    }
    middle = folder.path() + "/" + std::string(log->file_name(log->find(50)->file));
  }
  std::filesystem::remove(middle);
  CHECK_THROWS_WITH_AS(folder.open(), doctest::Contains("missing"), feeds::FeedError);
}

TEST_CASE("nothing is acknowledged where the drive is full, and all goes on when it is not") {
  const FeedFolder folder;
  const auto log = folder.open();
  take(*log, 1, "one");
  commit(*log);
  failpoint::configure_failpoints("feed.full=fail:1:3");
  take(*log, 2, "two");
  for (int i = 0; i < 3; ++i) CHECK(log->write() == "No space left on device");
  REQUIRE(log->sync() == "");
  CHECK(log->durable_sequence(1) == 1);
  commit(*log);
  CHECK(log->durable_sequence(1) == 2);
  CHECK(record_text(*log, 1) == "two");
  failpoint::configure_failpoints("");
}

TEST_CASE("what is left out fills no log, and its counts survive") {
  const FeedFolder folder(small_files(1 << 12));
  // The state of each takes 64 bytes: the log has room for a twentieth of them.
  constexpr std::uint64_t kSent = 20'000;
  {
    const auto log = folder.open();
    for (std::uint64_t n = 1; n <= kSent; ++n) {
      CHECK(take(*log, n, "", 1 + n % 3) == Taken::malformed);
      REQUIRE(log->write() == "");
      CHECK(log->kept() < 1 << 17);
    }
    REQUIRE(log->sync() == "");
    CHECK(log->end_record() == 0);
    CHECK(log->durable_sequence(1 + kSent % 3) == kSent);
  }
  {
    const auto log = folder.open();
    CHECK(log->cut() == 0);
    CHECK(log->counts().malformed == kSent);
    CHECK(log->durable_sequence(1 + kSent % 3) == kSent);
    CHECK(take(*log, kSent + 1, "one") == Taken::taken);
    log->end();
    commit(*log);
    for (std::uint64_t n = 0; n < 5000; ++n) {  // also behind a record, and behind the end
      log->count_malformed(1);
      REQUIRE(log->write() == "");
    }
    CHECK(log->kept() < 1 << 18);
    commit(*log);
  }
  const auto log = folder.open();
  CHECK(log->has_ended());
  CHECK(log->counts().malformed == kSent + 5000);
  CHECK(record_text(*log, 0) == "one");
}

TEST_CASE("a file that was to replace another when the machine died is no part of the log") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    take(*log, 1, "one");
    commit(*log);
  }
  const std::string torn = last_file(folder.path()) + ".new";
  std::ofstream(torn) << "torn";
  const auto log = folder.open();
  CHECK(log->end_record() == 1);
  CHECK(!std::filesystem::exists(torn));
}

TEST_CASE("a look at the log waits for no drive while it begins a file") {
  const FeedFolder folder(small_files(1 << 12));
  const auto log = folder.open();
  for (std::uint64_t n = 1; n <= 20; ++n) take(*log, n, std::string(3000, 'y'));
  commit(*log);
  failpoint::configure_failpoints("feed.roll=delay-1000");
  for (std::uint64_t n = 21; n <= 40; ++n) take(*log, n, std::string(3000, 'y'));
  std::atomic<bool> is_written = false;
  std::thread writer([&] {
    CHECK(log->write() == "");
    is_written = true;
  });
  const auto has_reached = [] {
    for (const auto& one : failpoint::failpoint_counts())
      if (one.name == "feed.roll" && one.reached > 0) return true;
    return false;
  };
  while (!has_reached()) std::this_thread::yield();
  CHECK(log->end_record() == 20);
  CHECK(record_text(*log, 3) == std::string(3000, 'y'));
  CHECK(log->kept() > 0);
  CHECK(!is_written);
  writer.join();
  failpoint::configure_failpoints("");
  REQUIRE(log->sync() == "");
  CHECK(log->end_record() == 40);
}

// What a producer that was forgotten sends again would be taken twice.
TEST_CASE("a log knows each producer that ever was, and has room for so many alone") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    CHECK(log->may_send(1));
    for (std::uint64_t id = 1; id <= feeds::kProducersMost; ++id) {
      CHECK(take(*log, 9, "x", id) == Taken::taken);
      if (id % 5000 == 0) commit(*log);
    }
    commit(*log);
  }
  const auto log = folder.open();
  CHECK(log->producers() == feeds::kProducersMost);
  CHECK(log->may_send(1));
  CHECK(log->may_send(feeds::kProducersMost));
  CHECK_FALSE(log->may_send(feeds::kProducersMost + 1));
  for (std::uint64_t id = 1; id <= feeds::kProducersMost; id += 1000)
    CHECK(take(*log, 9, "x", id) == Taken::doubled);
  CHECK(take(*log, 10, "y", 1) == Taken::taken);
  commit(*log);
  CHECK(log->end_record() == feeds::kProducersMost + 1);
  CHECK(log->counts().taken == feeds::kProducersMost + 1);
}

TEST_CASE("a folder that is removed while its log is open acknowledges nothing any more") {
  const FeedFolder folder;
  const auto log = folder.open();
  take(*log, 1, "one");
  commit(*log);
  std::filesystem::remove_all(folder.path());
  take(*log, 2, "two");
  REQUIRE(log->write() == "");
  CHECK(log->sync().find("was removed") != std::string::npos);
  CHECK(log->durable_sequence(1) == 1);
  CHECK(log->write() != "");
}

TEST_CASE("a feed is made as a whole or not at all, and by one alone") {
  for (int time = 0; time < 20; ++time) {
    const FeedFolder parent;
    const std::string folder = parent.path() + "/feed";
    std::atomic<int> made = 0;
    std::atomic<bool> ends = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        try {
          feeds::create_feed(folder, {});
          ++made;
        } catch (const feeds::FeedError&) {
        }
      });
    }
    std::thread reader([&] {
      while (!ends) {
        if (feeds::is_feed(folder)) CHECK_NOTHROW(feeds::read_settings(folder));
      }
    });
    for (std::thread& thread : threads) thread.join();
    ends = true;
    reader.join();
    CHECK(made == 1);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder)) ++files;
    CHECK(files == 1);
  }
}

TEST_CASE("a drive that fails ends the log, and acknowledges nothing any more") {
  const FeedFolder folder;
  const auto log = folder.open();
  failpoint::configure_failpoints("feed.sync=fail");
  take(*log, 1, "one");
  REQUIRE(log->write() == "");
  CHECK(log->sync() != "");
  failpoint::configure_failpoints("");
  CHECK(log->sync() != "");
  CHECK(log->end_record() == 0);
  CHECK(log->durable_sequence(1) == 0);
}

TEST_CASE("the end is durable, and nothing is taken behind it") {
  const FeedFolder folder;
  {
    const auto log = folder.open();
    take(*log, 1, "one");
    log->end();
    CHECK(take(*log, 2, "two") == Taken::malformed);
    CHECK(!log->has_ended());
    commit(*log);
    CHECK(log->has_ended());
  }
  const auto log = folder.open();
  CHECK(log->has_ended());
  CHECK(log->end_record() == 1);
}

TEST_CASE("a feed is one service's at a time") {
  const FeedFolder folder;
  const auto log = folder.open();
  CHECK_THROWS_WITH_AS(folder.open(), doctest::Contains("another service"), feeds::FeedError);
}

TEST_CASE("settings that cannot be are refused") {
  for (const char* const schema :
       {"", "float99", "f32[", "f32[0]", "f32[2,]", "f32[x]", "f32 [2]"}) {
    CAPTURE(schema);
    FeedSettings settings;
    settings.schema = schema;
    CHECK_THROWS_AS(FeedFolder{settings}, feeds::FeedError);
  }
  FeedSettings settings;
  settings.keep_bytes = 1000;
  CHECK_THROWS_AS(feeds::complete(settings), feeds::FeedError);
  CHECK_THROWS_AS(feeds::settings_from_json("{}", "feed.json"), feeds::FeedError);
  CHECK_THROWS_AS(feeds::settings_from_json("nonsense", "feed.json"), feeds::FeedError);
}

// What is random: when it is committed, when it crashes, and where the file is then torn.
TEST_CASE("whatever is torn where, each acknowledged record is there once, in its order") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(hash(5, seed));
    const FeedFolder folder(small_files());
    std::vector<std::string> expected;  // that are acknowledged
    std::uint64_t sent = 0;
    std::vector<std::string> all;
    for (int life = 0; life < 5; ++life) {
      const auto log = folder.open();
      // What was written, and not made durable, may be there, too.
      REQUIRE(log->end_record() >= expected.size());
      for (std::uint64_t n = 0; n < log->end_record(); ++n) REQUIRE(record_text(*log, n) == all[n]);
      sent = log->durable_sequence(1);
      REQUIRE(sent == log->end_record());
      all.resize(sent);
      Bytes durable = log->kept();
      for (std::uint64_t steps = random.below(60); steps > 0; --steps) {
        for (std::uint64_t count = random.below(5); count > 0; --count) {
          all.push_back(std::to_string(sent) + std::string(random.below(4000), 'z'));
          REQUIRE(take(*log, ++sent, all.back()) == Taken::taken);
        }
        REQUIRE(log->write() == "");
        if (random.below(2) != 0) continue;
        REQUIRE(log->sync() == "");
        durable = log->kept();
        expected.assign(all.begin(),
                        all.begin() + static_cast<std::ptrdiff_t>(log->durable_sequence(1)));
      }
      // Of what is not durable, any part may be lost: here the end of the last file.
      const std::string file = last_file(folder.path());
      const Bytes undurable = log->kept() - durable;
      const Bytes size = std::filesystem::file_size(file);
      std::filesystem::resize_file(file, size - std::min(size, random.below(undurable + 1)));
    }
  }
}

}  // namespace batchflow::test::feed_log_test
