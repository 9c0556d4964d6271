// Where the producers of a feed reach it: a socket in its folder.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/protocol/descriptor.h"

namespace batchflow::protocol {

inline constexpr std::string_view kFeedSocket = "feed.sock";

// The address of the socket in the folder that `folder` has open. The folder's own path may be too
// long for an address.
sockaddr_un feed_address(const Descriptor& folder);
// A connection that never waits. None, with the reason in `problem`: nothing takes records there.
Descriptor connect_to_feed(const std::string& folder, std::string& problem);
// What a call on such a connection has moved, of which it said `count`: 0 if it must be made again
// later, -1 if the connection is over.
std::ptrdiff_t bytes_moved(ssize_t count);

}  // namespace batchflow::protocol
