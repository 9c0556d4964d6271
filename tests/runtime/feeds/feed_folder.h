// A folder with a feed, for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "runtime/feeds/feed_log.h"

namespace batchflow::test {

class FeedFolder {
 public:
  explicit FeedFolder(feeds::FeedSettings settings = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "batchflow-feed-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw feeds::FeedError("no folder");
    path_ = name;
    if (settings.keep_bytes == Bytes{1} << 30) settings.keep_bytes = 1 << 22;
    feeds::create_feed(path_, settings);
  }
  ~FeedFolder() { std::filesystem::remove_all(path_); }
  FeedFolder(const FeedFolder&) = delete;
  FeedFolder& operator=(const FeedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::shared_ptr<feeds::FeedLog> open() const {
    return std::make_shared<feeds::FeedLog>(path_, feeds::read_settings(path_));
  }

 private:
  std::string path_;
};

}  // namespace batchflow::test
