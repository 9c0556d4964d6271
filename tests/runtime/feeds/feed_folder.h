// A folder with a feed, what its log says, and what comes there with time, for tests.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include "runtime/feeds/feed_log.h"
#include "tests/temporary_folder.h"

namespace batchflow::test {

class FeedFolder {
 public:
  explicit FeedFolder(feeds::FeedSettings settings = {}) : path_(folder_.path().string()) {
    if (settings.keep_bytes == Bytes{1} << 30) settings.keep_bytes = 1 << 22;
    feeds::create_feed(path_, settings);
  }

  const std::string& path() const { return path_; }
  std::shared_ptr<feeds::FeedLog> open() const {
    return std::make_shared<feeds::FeedLog>(path_, feeds::read_settings(path_));
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

// Of a log with small files.
inline feeds::FeedSettings small_files(std::uint32_t record_bytes = 10'000) {
  feeds::FeedSettings settings;
  settings.keep_bytes = 1 << 20;
  settings.segment_bytes = 1 << 16;
  settings.record_bytes = record_bytes;
  return settings;
}

inline std::string record_text(const feeds::FeedLog& log, std::uint64_t record) {
  const auto place = log.find(record);
  REQUIRE(place);
  std::string text(place->bytes, '\0');
  REQUIRE(log.read(*place, std::as_writable_bytes(std::span(text))));
  return text;
}

// Whether this holds within some seconds.
template <class Holds>
bool comes(Holds holds) {
  for (int i = 0; i < 4000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace batchflow::test
