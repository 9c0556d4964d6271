// A feed's folder as a dataset.
#pragma once

#include <memory>
#include <string>

#include "runtime/feeds/feed_index.h"

namespace batchflow::feeds {

// Whether the folder is one of a feed.
bool is_feed(const std::string& folder);
// Opens its log. Throws FeedError.
std::shared_ptr<FeedIndex> open_feed(const std::string& name, const std::string& folder);

}  // namespace batchflow::feeds
