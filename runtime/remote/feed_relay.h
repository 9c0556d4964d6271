// The service's end of the connection of a producer on another machine.
//
// To the feed it looks like a producer of this machine: it passes on the bytes of both sides as
// they are (runtime/protocol/feed_wire.h). It holds few of them, so a feed that does not read holds
// up the producer, too.
#pragma once

#include <string_view>

#include "runtime/protocol/descriptor.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {

// What the service answers to a token once the feed is reached. All that follows is the feed's.
inline constexpr std::string_view kFeedOpen = R"({"type":"feed"})";

// Returns when either side has ended, or another thread shuts the channel. `feed` is a socket that
// never waits.
void relay_feed(TcpChannel& producer, const protocol::Descriptor& feed);

}  // namespace batchflow::remote
