// The threads that read ranges: each piece has one result, and an end waits for none that hangs.
#include "runtime/objects/range_reader.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "doctest/doctest.h"

namespace batchflow::test::range_reader_test {

namespace {

// Fills memory with the offset's lowest byte. `hangs`: until it is to stop.
class FakeStore final : public objects::ObjectStore {
 public:
  const std::string& url() const override { return name_; }
  const std::string& only() const override { return name_; }
  void list(const Listed&) override {}
  objects::ObjectInfo look(std::string_view) override { return {}; }
  objects::RangeAnswer read(std::string_view, std::uint64_t, std::uint64_t offset,
                            std::span<std::byte> to, const std::atomic<bool>& stop) override {
    const unsigned now = ++reading;
    for (unsigned most = most_at_once;
         now > most && !most_at_once.compare_exchange_weak(most, now);) {
    }
    while (hangs && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --reading;
    if (hangs) return {ECANCELED, "stopped", 0};
    if (offset % 10 == 3) return {EREMOTEIO, "it answers 500", 0};
    std::memset(to.data(), static_cast<int>(offset & 255), to.size());
    return {0, "", to.size()};
  }

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
    if (!fails) CHECK(to[i] == std::vector<std::byte>(64, std::byte(i & 255)));
  }
  CHECK(store->most_at_once <= 8);
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
