// Where the producers of a feed reach it: a socket in its folder.
#pragma once

#include <sys/un.h>

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

}  // namespace batchflow::protocol
