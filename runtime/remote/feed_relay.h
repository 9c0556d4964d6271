// The service's end of the connection of a producer on another machine.
//
// To the feed it looks like a producer of this machine: it passes on the bytes of both sides as
// they are (runtime/protocol/feed_wire.h). It holds few of them, so a feed that does not read holds
// up the producer, too. The feed may be on another node of a cluster, which relays in the same way.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {

// What the service answers to a token once the feed is reached. All that follows is the feed's.
inline constexpr std::string_view kFeedOpen = R"({"type":"feed"})";

// The feed's side of a relay.
class FeedEnd {
 public:
  virtual ~FeedEnd() = default;
  virtual int socket() const = 0;
  // How many bytes were moved. 0: none can be now, and `wants` says for which event of the socket
  // to wait; -1: it has ended.
  virtual std::ptrdiff_t read_some(std::span<std::byte> bytes, short& wants) = 0;
  virtual std::ptrdiff_t write_some(std::span<const std::byte> bytes, short& wants) = 0;
};

struct OpenedFeed {
  std::unique_ptr<FeedEnd> end;  // null: it is not reached
  std::string why, problem;      // then, as protocol::Refused has them
};
// The feed of that name, which has its log in the folder. An empty folder: there is no such feed.
OpenedFeed open_feed_in(const std::string& folder, const std::string& name);
// Whether the service has answered that the feed is reached. False: with its reason.
bool is_feed_open(TcpChannel& channel, TcpChannel::Clock::time_point deadline, std::string& why,
                  std::string& problem);
// The feed that another service has reached over the channel.
std::unique_ptr<FeedEnd> feed_end(std::unique_ptr<TcpChannel> channel);

// Returns when either side has ended, or another thread shuts the channel.
void relay_feed(TcpChannel& producer, FeedEnd& feed);

}  // namespace batchflow::remote
