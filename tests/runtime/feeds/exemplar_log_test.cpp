// What a feed keeps of the records that it drops: the exemplars of reservoirs, whatever is torn
// where.
#include "runtime/feeds/exemplar_log.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <vector>

#include "core/base/random.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_server.h"
#include "runtime/feeds/frames.h"
#include "tests/runtime/feeds/feed_folder.h"

namespace batchflow::test::exemplar_log_test {

namespace {

using feeds::FeedLog;
using order::Reservoir;
using order::ReservoirName;

constexpr std::uint64_t kAll = std::uint64_t{1} << 32;
constexpr ReservoirName kName{7, 0, 20};

// 50 exemplars are a quarter of the log. Which records these are follows from the id.
feeds::FeedSettings records_of_5_kb() {
  feeds::FeedSettings settings = small_files(5100);
  settings.id = 5;
  return settings;
}

std::string text_of(std::uint64_t n) {
  return std::to_string(n) + std::string(5000, 'x');  // 13 of them in a file
}

// Records up to `end`, durable.
void put(FeedLog& log, std::uint64_t end) {
  for (std::uint64_t n = log.end_record(); n < end; ++n) {
    protocol::FeedRecordHead head;
    head.sequence = n + 1;
    head.label = static_cast<std::int32_t>(n % 7);
    const std::string text = text_of(n);
    REQUIRE(log.take(1, head, std::as_bytes(std::span(text)), kAll) == feeds::Taken::taken);
  }
  REQUIRE(log.write() == "");
  REQUIRE(log.sync() == "");
}

void keep(FeedLog& log) {
  while (log.has_to_keep_exemplars()) REQUIRE(log.keep_exemplars() == "");
}

std::vector<std::uint32_t> exemplars(const FeedLog& log, const ReservoirName& name) {
  Reservoir reservoir(feeds::version_of(log.settings()), name);
  reservoir.show(std::max(log.first(), name.first));
  return {reservoir.records().begin(), reservoir.records().end()};
}

// All of these are there with their bytes and classes, and the first of all records besides.
void check(const FeedLog& log, const std::vector<ReservoirName>& names) {
  for (const ReservoirName& name : names) {
    REQUIRE(log.can_rehearse(name));
    for (const std::uint32_t record : exemplars(log, name)) {
      CAPTURE(record);
      REQUIRE(record_text(log, record) == text_of(record));
      CHECK(log.find(record)->label == static_cast<std::int32_t>(record % 7));
    }
  }
  for (std::uint64_t n = log.first(); n < log.end_record(); ++n)
    REQUIRE(record_text(log, n) == text_of(n));
}

// The records that are gone, and are found all the same.
std::size_t kept(const FeedLog& log) {
  std::size_t count = 0;
  for (std::uint64_t n = 0; n < log.first(); ++n) count += log.find(n) ? 1 : 0;
  return count;
}

std::vector<std::string> exemplar_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("exemplars.")) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void copy(const std::string& from, const std::string& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to);
}

}  // namespace

TEST_CASE("exemplars are found when their files have gone, and after the log was opened again") {
  const FeedFolder folder(records_of_5_kb());
  const std::vector<ReservoirName> names{kName, {7, 5, 3}, {8, 0, 20}};
  auto log = folder.open();
  for (std::uint64_t end = 50; end <= 600; end += 50) {
    put(*log, end);
    log->drop_before(end - 10, names);
    const std::uint64_t first = log->first();
    check(*log, names);  // while the files are still there
    keep(*log);
    CHECK(log->first() == first);
    check(*log, names);
    // 43 at most, and what two of them have both counts once.
    CHECK(kept(*log) <= 43);
    CHECK(kept(*log) >= 20);
  }
  CHECK(log->first() > 500);
  log.reset();
  log = folder.open();
  CHECK(log->first() > 500);
  check(*log, names);
  CHECK(kept(*log) <= 43);
  // Of all that it has known, also where none is named.
  put(*log, 700);
  log->drop_before(690);
  keep(*log);
  check(*log, names);
}

TEST_CASE("without reservoirs nothing is kept, and files go at once") {
  const FeedFolder folder(records_of_5_kb());
  const auto log = folder.open();
  put(*log, 100);
  log->drop_before(90);
  CHECK(!log->has_to_keep_exemplars());
  CHECK(log->first() > 70);
  CHECK(kept(*log) == 0);
  CHECK(exemplar_files(folder.path()).empty());
}

TEST_CASE("a reservoir whose records are gone is not made up") {
  const FeedFolder folder(records_of_5_kb());
  const auto log = folder.open();
  put(*log, 100);
  log->drop_before(90);
  CHECK(!log->can_rehearse(kName));
  CHECK(log->can_rehearse({7, log->first(), 20}));
  put(*log, 200);
  log->drop_before(190, std::vector{kName, ReservoirName{7, log->first(), 5}});
  keep(*log);
  CHECK(kept(*log) == 5);
}

TEST_CASE("whatever of it is torn when the machine dies, all exemplars are there") {
  const FeedFolder folder(records_of_5_kb());
  const TemporaryFolder spare;
  const std::string before = (spare.path() / "before").string();
  const std::string torn = (spare.path() / "torn").string();
  const std::vector<ReservoirName> names{kName, {8, 0, 5}};
  {
    const auto log = folder.open();
    put(*log, 40);
    log->drop_before(30, names);
    keep(*log);
    put(*log, 80);
  }
  copy(folder.path(), before);
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  {
    const auto log = folder.open();
    first = log->first();
    log->drop_before(60, names);
    keep(*log);
    end = log->first();
    REQUIRE(end > first);
  }
  const std::string path = exemplar_files(folder.path()).back();
  const auto had = std::filesystem::file_size(exemplar_files(before).back());
  const auto has = std::filesystem::file_size(path);
  REQUIRE(exemplar_files(before).size() == 1);
  REQUIRE(has > had);
  const auto open = [&] { return std::make_shared<FeedLog>(torn, feeds::read_settings(torn)); };
  // The files of records were still there, as `before` has them. Each that goes is seen to by
  // itself.
  std::uint64_t last = first;
  for (std::uint64_t size = had; size <= has;
       size += size == has ? 1 : std::min<std::uint64_t>(797, has - size)) {
    CAPTURE(size);
    copy(before, torn);
    std::filesystem::copy_file(path, exemplar_files(torn).back(),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(exemplar_files(torn).back(), size);
    auto log = open();
    CHECK(log->first() >= last);
    last = log->first();
    check(*log, names);
    // It goes on from there.
    log->drop_before(75, names);
    keep(*log);
    check(*log, names);
    log.reset();
    check(*open(), names);
  }
  CHECK(last == end);
}

TEST_CASE("a file of which most is not needed any more is replaced, and stays while it is read") {
  const FeedFolder folder(records_of_5_kb());
  auto log = folder.open();
  std::map<std::uint32_t, FeedLog::Place> places;
  std::size_t replaced = 0;
  std::string last;
  for (std::uint64_t end = 50; end <= 3000; end += 50) {
    put(*log, end);
    log->drop_before(end - 10, std::vector{kName});
    while (log->has_to_keep_exemplars()) {
      places.clear();
      for (const std::uint32_t record : exemplars(*log, kName))
        if (const auto place = log->find(record)) places[record] = *place;
      REQUIRE(log->keep_exemplars() == "");
      // What was found before the change can be read after it, by its place and by its name.
      for (const auto& [record, place] : places) {
        std::string text(place.bytes, '\0');
        REQUIRE(log->read(place, std::as_writable_bytes(std::span(text))));
        CHECK(text == text_of(record));
        CHECK(
            std::filesystem::exists(folder.path() + "/" + std::string(log->file_name(place.file))));
      }
    }
    const std::vector<std::string> files = exemplar_files(folder.path());
    CHECK(files.size() <= 2);
    if (!last.empty() && files.back() != last) ++replaced;
    last = files.back();
    Bytes bytes = 0;
    for (const std::string& file : files) bytes += std::filesystem::file_size(file);
    CHECK(bytes < 2 * (2 * 20 * 5100 + (1 << 16) + 20 * 5100));
  }
  CHECK(replaced >= 2);
  log.reset();
  log = folder.open();
  CHECK(exemplar_files(folder.path()) == std::vector{last});
  check(*log, {kName});
}

TEST_CASE("files stay while their exemplars cannot be kept, and go when they can") {
  const FeedFolder folder(records_of_5_kb());
  const auto log = folder.open();
  put(*log, 200);
  log->drop_before(90, std::vector{kName});
  for (const char* fails : {"feed.full=fail:1:2", "feed.exemplars.name=fail:1:1"}) {
    CAPTURE(fails);
    const Bytes before = log->kept();
    failpoint::configure_failpoints(fails);
    CHECK(log->keep_exemplars() != "");
    failpoint::configure_failpoints("");
    CHECK(log->has_to_keep_exemplars());
    CHECK(log->kept() == before);
    check(*log, {kName});
  }
  const Bytes before = log->kept();
  keep(*log);
  CHECK(log->kept() < before);
  check(*log, {kName});
}

TEST_CASE("a reservoir of a new name takes the room of one that no job has") {
  const FeedFolder folder(records_of_5_kb());
  auto log = folder.open();
  const ReservoirName old{7, 0, 40};
  put(*log, 100);
  log->drop_before(60, std::vector{old});
  keep(*log);
  CHECK(log->can_rehearse(old));
  put(*log, 200);
  const ReservoirName other{8, log->first(), 40};
  log->drop_before(190, std::vector{other});
  keep(*log);
  CHECK(!log->can_rehearse(old));
  check(*log, {other});
  log.reset();
  log = folder.open();
  CHECK(!log->can_rehearse(old));
  check(*log, {other});
}

TEST_CASE("exemplars are forgotten where files have gone without them") {
  const FeedFolder folder(records_of_5_kb());
  const TemporaryFolder spare;
  const std::string before = (spare.path() / "before").string();
  for (const std::uint64_t end : {100, 200, 300}) {
    const auto log = folder.open();
    check(*log, {kName});
    put(*log, end);
    // A reservoir stays where no job names it any more.
    log->drop_before(end - 10, end == 100 ? std::vector{kName} : std::vector<ReservoirName>());
    keep(*log);
    check(*log, {kName});
    if (end == 100) copy(folder.path(), before);
  }
  // As a service leaves it that knows nothing of exemplars.
  for (const std::string& path : exemplar_files(folder.path())) std::filesystem::remove(path);
  for (const std::string& path : exemplar_files(before)) std::filesystem::copy(path, folder.path());
  auto log = folder.open();
  CHECK(!log->can_rehearse(kName));
  CHECK(kept(*log) == 0);
  CHECK(log->has_forgotten());
  put(*log, 400);
  const ReservoirName next{7, log->first(), 20};
  log->drop_before(390, std::vector{next});
  keep(*log);
  check(*log, {next});
  log.reset();
  log = folder.open();
  check(*log, {next});
  CHECK(!log->has_forgotten());
}

TEST_CASE("a reservoir is noted before any of its records has gone") {
  const FeedFolder folder(records_of_5_kb());
  {
    const auto log = folder.open();
    put(*log, 50);
    log->drop_before(0, std::vector{kName});
    CHECK(log->has_to_keep_exemplars());
    keep(*log);
    CHECK(log->first() == 0);
    CHECK(kept(*log) == 0);
    log->drop_before(0, std::vector{kName});
    CHECK(!log->has_to_keep_exemplars());
  }
  // Another job drops records, and the service does not know of the first one any more.
  const auto log = folder.open();
  put(*log, 200);
  log->drop_before(190, std::vector{ReservoirName{9, 0, 3}});
  keep(*log);
  check(*log, {kName, {9, 0, 3}});
}

TEST_CASE("a service that is killed at any time loses no exemplar") {
  const FeedFolder folder(records_of_5_kb());
  const std::vector<ReservoirName> names{kName, {8, 0, 20}};
  std::uint64_t first = 0;
  Random random(hash(79));
  for (int round = 0; round < 30 || (first < 200 && round < 300); ++round) {
    CAPTURE(round);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto log = folder.open();
      for (std::uint64_t end = log->end_record() + 20;; end += 20) {
        put(*log, end);
        log->drop_before(end - 10, names);
        keep(*log);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + random.below(20'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);
    const auto log = folder.open();
    CHECK(log->first() >= first);
    first = log->first();
    check(*log, names);
  }
  CHECK(first >= 200);
}

TEST_CASE("exemplars of another feed are refused, and those that were begun are left alone") {
  const FeedFolder folder(records_of_5_kb());
  {
    const auto log = folder.open();
    put(*log, 100);
    log->drop_before(90, std::vector{kName});
    keep(*log);
  }
  const std::string path = exemplar_files(folder.path()).front();
  std::ofstream(path + ".new") << "BFEX";
  check(*folder.open(), {kName});
  CHECK(!std::filesystem::exists(path + ".new"));
  std::fstream(path, std::ios::in | std::ios::out).seekp(16).put('?');
  CHECK_THROWS_WITH_AS(folder.open(), doctest::Contains("is of another feed or version"),
                       feeds::FeedError);
}

TEST_CASE("a frame that no crash leaves is an error, and one that is torn ends the file") {
  using protocol::put_feed;
  std::vector<std::byte> name;
  for (const std::uint64_t part : {std::uint64_t{7}, std::uint64_t{0}}) put_feed(part, name);
  put_feed(std::uint32_t{20}, name);
  const auto exemplar = [&](std::uint32_t slot, std::uint64_t record) {
    std::vector<std::byte> body{std::byte{1}};
    body.insert(body.end(), name.begin(), name.end());
    put_feed(slot, body);
    put_feed(record, body);
    put_feed(std::int32_t{0}, body);
    return body;
  };
  const auto kept_frame = [&](std::uint64_t dropped, std::uint32_t count) {
    std::vector<std::byte> body{std::byte{2}};
    put_feed(dropped, body);
    put_feed(count, body);
    body.insert(body.end(), name.begin(), name.end());
    return body;
  };
  const std::vector<std::vector<std::vector<std::byte>>> damaged{
      {{std::byte{3}}},                    // a kind that is none
      {{std::byte{1}, std::byte{7}}},      // an exemplar without a name
      {{std::byte{2}, std::byte{7}}},      // and what was kept without a number
      {exemplar(20, 0)},                   // a slot that the reservoir has not
      {exemplar(0, UINT32_MAX)},           // a record that no feed has
      {kept_frame(0, 2)},                  // a name that is missing
      {kept_frame(0, UINT32_MAX)},         // and many of them
      {exemplar(1, 0), kept_frame(2, 1)},  // a slot behind one that is not there
      {exemplar(0, 0), kept_frame(2, 1)},  // fewer exemplars than the reservoir has
      {exemplar(0, 0), kept_frame(0, 1)},  // and more
      {kept_frame(UINT64_MAX, 1)},
  };
  for (std::size_t i = 0; i < damaged.size() + 1; ++i) {
    CAPTURE(i);
    const FeedFolder folder(records_of_5_kb());
    {
      const auto log = folder.open();
      put(*log, 20);
      log->drop_before(0, std::vector{kName});
      keep(*log);
    }
    const std::string path = exemplar_files(folder.path()).front();
    std::vector<std::byte> bytes;
    const bool is_torn = i == damaged.size();
    for (const auto& body : is_torn ? damaged[0] : damaged[i]) feeds::put_frame(body, bytes);
    if (is_torn) bytes.back() ^= std::byte{1};
    std::ofstream(path, std::ios::app | std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (is_torn) {
      check(*folder.open(), {kName});
    } else {
      CHECK_THROWS_WITH_AS(folder.open(), doctest::Contains("is damaged; move it elsewhere"),
                           feeds::FeedError);
    }
  }
}

TEST_CASE("a server keeps exemplars, and says that files have gone") {
  const FeedFolder folder(records_of_5_kb());
  const auto log = folder.open();
  put(*log, 200);
  std::atomic<std::uint64_t> first{0};
  feeds::FeedServer server(log, [&](const feeds::FeedState& state) { first = state.first; });
  server.pace(190, false, kAll, std::vector{kName});
  CHECK(server.state().first > 170);
  CHECK(comes([&] { return first > 170 && !log->has_to_keep_exemplars(); }));
  check(*log, {kName});
  CHECK(server.status().problem == "");
}

}  // namespace batchflow::test::exemplar_log_test
