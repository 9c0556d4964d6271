// The control connection between an agent and its coordinator: frames both ways, in order.
//
// The service's loop reads and writes it, without waiting: many links cost no thread switches, and
// what is written in one turn of the loop leaves in one piece. A thread of the link's own only
// sends an empty frame now and then, so that each side notices soon that the other is gone, however
// long a turn takes. A side that takes nothing loses the connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/post.h"

namespace batchflow::service {

struct NodeFrame {
  remote::RemoteKind kind = remote::RemoteKind::text;
  std::vector<std::byte> bytes;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class NodeLink : public std::enable_shared_from_this<NodeLink> {
 public:
  static constexpr std::size_t kFrameMost = std::size_t{64} << 20;
  static constexpr std::chrono::milliseconds kBeat{500};

  // The other side is lost if nothing comes from it for `silence`, or if more than `unsent_most`
  // bytes wait for it. The channel is used until close().
  NodeLink(boost::asio::io_context& loop, remote::TcpChannel& channel,
           std::chrono::milliseconds silence, Bytes unsent_most);
  NodeLink(const NodeLink&) = delete;

  // Any thread may call these.
  void write(remote::RemoteKind kind, std::span<const std::byte> bytes);
  void write(std::string_view text);
  void shut(std::string_view why);
  // Sends what was written, as far as that is possible at once.
  void flush();
  // From here on it does nothing, and the channel is not used.
  void close();

  // For each piece that comes, has `post` run a function on the loop that calls `take` for the
  // frames in it.
  void read(Post post, std::function<void(NodeFrame)> take);
  // Keeps the connection, on the caller's thread, until it ends.
  void keep();
  // Why it has ended.
  std::string problem() const { return channel_.problem(); }

 private:
  using Clock = remote::TcpChannel::Clock;

  void append(remote::RemoteKind kind, std::span<const std::byte> bytes);
  void write_some();
  void wait_to_read();
  std::vector<NodeFrame> read_some();
  void take_frames(std::vector<NodeFrame>& out);
  void beat(bool hung_up);

  boost::asio::io_context& loop_;
  remote::TcpChannel& channel_;
  const std::chrono::milliseconds silence_;
  const Bytes unsent_most_;
  boost::asio::posix::stream_descriptor socket_;  // of the loop alone
  Post post_;
  std::function<void(NodeFrame)> take_;

  std::mutex mutex_;             // of all that follows, and of the channel's use
  bool closed_ = false;          // nothing is written any more
  bool flush_due_ = false;       // it was posted
  bool waits_to_write_ = false;  // the socket takes nothing now
  std::vector<std::byte> unsent_;
  std::size_t sent_ = 0;  // of it
  std::vector<std::byte> in_;
  std::size_t in_bytes_ = 0;  // of it, that have come
  bool has_more_ = false;     // perhaps, in the channel
  Clock::time_point heard_ = Clock::now(), moved_ = Clock::now();
};

}  // namespace batchflow::service
