#include "runtime/feeds/open_feed.h"

#include <unistd.h>

namespace batchflow::feeds {

bool is_feed(const std::string& folder) {
  return ::access((folder + "/" + std::string(kSettingsFile)).c_str(), F_OK) == 0;
}

std::shared_ptr<FeedIndex> open_feed(const std::string& name, const std::string& folder) {
  return std::make_shared<FeedIndex>(name,
                                     std::make_shared<FeedLog>(folder, read_settings(folder)));
}

}  // namespace batchflow::feeds
