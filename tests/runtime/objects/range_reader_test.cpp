// The threads that read ranges: each piece has one result, neighbours are one request, and an end
// waits for none that hangs.
#include "runtime/objects/range_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::test::range_reader_test {

namespace {

std::byte content(std::uint64_t offset) {
  return std::byte(offset * 7 + offset / 256);
}

// `hangs`: until it is to stop.
class FakeStore final : public objects::ObjectStore {
 public:
  const std::string& url() const override { return name_; }
  const std::string& only() const override { return name_; }
  void list(const Listed&) override {}
  objects::ObjectInfo look(std::string_view) override { return {}; }
  objects::RangeAnswer read(std::string_view path, std::uint64_t mark, std::uint64_t offset,
                            std::span<const std::span<std::byte>> to,
                            const std::atomic<bool>& stop) override {
    const unsigned now = ++reading;
    for (unsigned most = most_at_once;
         now > most && !most_at_once.compare_exchange_weak(most, now);) {
    }
    while (hangs && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --reading;
    if (hangs) return {ECANCELED, "stopped", 0};
    if (offset % 10 == 3) return {EREMOTEIO, "it answers 500", 0};
    std::uint64_t at = offset;
    for (const std::span<std::byte> part : to)
      for (std::byte& byte : part) byte = content(at++);
    const std::lock_guard lock(mutex);
    requests.push_back(fmt::format("{} {}: {} to {}", path, mark, offset, at));
    return {0, "", at - offset};
  }

  std::mutex mutex;
  std::vector<std::string> requests;
  std::atomic<bool> hangs{false};
  std::atomic<unsigned> reading{0}, most_at_once{0};

 private:
  const std::string name_ = "fake";
};

std::vector<objects::RangePiece> pieces_of(const std::shared_ptr<FakeStore>& store,
                                           std::vector<std::vector<std::byte>>& to) {
  std::vector<objects::RangePiece> pieces;
  for (std::size_t i = 0; i < to.size(); ++i) pieces.push_back({store, "x", 0, i, to[i], i});
  return pieces;
}

bool has_content(const std::vector<std::byte>& bytes, std::uint64_t offset) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&offset](std::byte one) { return one == content(offset++); });
}

}  // namespace

TEST_CASE("each range has one result, with its bytes or the store's words") {
  const auto store = std::make_shared<FakeStore>();
  std::vector<std::vector<std::byte>> to(500, std::vector<std::byte>(64));
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, objects::RangeResult> results;
  objects::RangeReader reader(8, [&](objects::RangeResult result) {
    const std::lock_guard lock(mutex);
    CHECK(results.emplace(result.tag, std::move(result)).second);
    changed.notify_one();
  });
  const auto pieces = pieces_of(store, to);
  reader.submit(std::span(pieces).first(100));
  for (const auto& one : std::span(pieces).subspan(100)) reader.submit({&one, 1});
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return results.size() == to.size(); });
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool fails = i % 10 == 3;
    CHECK(results.at(i).error == (fails ? EREMOTEIO : 0));
    CHECK(results.at(i).problem == (fails ? "it answers 500" : ""));
    if (!fails) CHECK(has_content(to[i], i));
  }
  CHECK(store->most_at_once <= 8);
}

TEST_CASE("ranges that lie near each other are one request") {
  constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib;
  struct Range {
    const char* path;
    std::uint64_t mark, offset, bytes;
  };
  const auto store = std::make_shared<FakeStore>();
  const auto other = std::make_shared<FakeStore>();
  // Each request, and the ranges that it brings.
  const std::vector<std::pair<std::string, std::vector<Range>>> requests = {
      {"x 1: 0 to 20000",
       {{"x", 1, 0, 64},
        {"x", 1, 64, 36},
        {"x", 1, 100, 0},
        {"x", 1, 612, 3000},
        {"x", 1, 19'996, 4}}},
      {"x 1: 36385 to 36400", {{"x", 1, 36'385, 15}}},  // 16 KiB and a byte behind
      {"x 2: 36400 to 36500", {{"x", 2, 36'400, 100}}},
      {"y 2: 36500 to 36600", {{"y", 2, 36'500, 100}}},
      {"y 2: 36550 to 36650", {{"y", 2, 36'550, 100}}},
      {"y 2: 10 to 20", {{"y", 2, 10, 10}}},
      {"y 2: 20 to 1048596", {{"y", 2, 20, kMib - 5}, {"y", 2, kMib + 15, 5}}},
      {"y 2: 1048596 to 4194324", {{"y", 2, kMib + 20, 3 * kMib}}},
      {"y 2: 4194324 to 4194325", {{"y", 2, 4 * kMib + 20, 1}}}};
  std::vector<objects::RangePiece> pieces;
  std::vector<std::string> wanted;
  std::deque<std::vector<std::byte>> to;
  for (const auto& [request, ranges] : requests) {
    wanted.push_back(request);
    for (const Range& one : ranges) {
      std::vector<std::byte>& memory = to.emplace_back(one.bytes);
      pieces.push_back({store, one.path, one.mark, one.offset, memory, pieces.size()});
    }
  }
  std::vector<std::byte> last(10);
  pieces.push_back({other, "y", 2, 4 * kMib + 21, last, pieces.size()});
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint64_t> done;
  objects::RangeReader reader(1, [&](const objects::RangeResult& result) {
    const std::lock_guard lock(mutex);
    CHECK(result.error == 0);
    CHECK(result.bytes == pieces[result.tag].to.size());
    done.push_back(result.tag);
    changed.notify_one();
  });
  reader.submit(pieces);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done.size() == pieces.size(); });
  for (std::size_t i = 0; i < to.size(); ++i) {
    CHECK(done[i] == i);
    CHECK(has_content(to[i], pieces[i].offset));
  }
  CHECK(has_content(last, 4 * kMib + 21));
  CHECK(store->requests == wanted);
  CHECK(other->requests.size() == 1);
}

TEST_CASE("what fails is an error of each range in it") {
  const auto store = std::make_shared<FakeStore>();
  std::vector<std::vector<std::byte>> to(5, std::vector<std::byte>(10));
  std::vector<objects::RangePiece> pieces;
  for (std::size_t i = 0; i < to.size(); ++i)
    pieces.push_back({store, "x", 0, 3 + 10 * i, to[i], i});
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, objects::RangeResult> results;
  objects::RangeReader reader(1, [&](objects::RangeResult result) {
    const std::lock_guard lock(mutex);
    results.emplace(result.tag, std::move(result));
    changed.notify_one();
  });
  reader.submit(pieces);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return results.size() == to.size(); });
  for (const auto& [tag, result] : results) {
    CHECK(result.error == EREMOTEIO);
    CHECK(result.bytes == 0);
    CHECK(result.problem == "it answers 500");
  }
}

TEST_CASE("the end of a reader ends what hangs, and what was not begun") {
  const auto store = std::make_shared<FakeStore>();
  store->hangs = true;
  std::vector<std::vector<std::byte>> to(20, std::vector<std::byte>(64));
  std::mutex mutex;
  std::size_t cancelled = 0;
  {
    objects::RangeReader reader(4, [&](const objects::RangeResult& result) {
      const std::lock_guard lock(mutex);
      CHECK(result.error == ECANCELED);
      ++cancelled;
    });
    reader.submit(pieces_of(store, to));
    while (store->reading < 4) std::this_thread::yield();
  }
  CHECK(cancelled == to.size());
}

}  // namespace batchflow::test::range_reader_test
