// The first frame of a producer to a feed, as JSON (runtime/protocol/feed_wire.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace batchflow::protocol {

struct FeedHello {
  std::string producer;  // a name
  std::string schema;    // what its records are
  bool waits = true;     // it can wait where the feed has no room
};

std::string encode(const FeedHello& hello);
// Empty, with the reason in `problem`, for what is none.
std::optional<FeedHello> feed_hello_from(std::string_view text, std::string& problem);

}  // namespace batchflow::protocol
