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
// The file that makes a folder a feed's.
inline constexpr std::string_view kFeedSettings = "feed.json";

// The address of the socket in the folder that `folder` has open. The folder's own path may be too
// long for an address.
sockaddr_un feed_address(const Descriptor& folder);
// A connection that never waits. None, with the reason in `problem`: nothing takes records there.
Descriptor connect_to_feed(const std::string& folder, std::string& problem);
// How many bytes a call on such a connection has moved, if it returned `count`. 0: the call must be
// made again later; -1: the connection is over.
std::ptrdiff_t bytes_moved(ssize_t count);

}  // namespace batchflow::protocol
