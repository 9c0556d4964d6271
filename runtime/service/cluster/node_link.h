// The control connection between an agent and its coordinator: frames both ways, in order.
//
// Writing never waits: a thread sends what was written, and an empty frame now and then, so that
// each side notices soon that the other is gone. A side that takes nothing loses the connection.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/types.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::service {

struct NodeFrame {
  remote::RemoteKind kind = remote::RemoteKind::text;
  std::vector<std::byte> bytes;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class NodeLink {
 public:
  static constexpr Bytes kUnsentMost = Bytes{256} << 20;
  static constexpr Bytes kUnhandledMost = Bytes{64} << 20;
  static constexpr std::size_t kFrameMost = std::size_t{64} << 20;
  static constexpr std::chrono::milliseconds kBeat{500};

  // The other side is lost if nothing comes of it for `silence`. The channel is used until close().
  NodeLink(remote::TcpChannel& channel, std::chrono::milliseconds silence);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;

  // Any thread may call these.
  void write(remote::RemoteKind kind, std::vector<std::byte> bytes);
  void write(std::string_view text);
  void shut(std::string_view why);
  // From here on it does nothing, and the channel is not used. The thread that reads calls it.
  void close();

  // Reads until the connection ends, on the caller's thread, and posts each frame to `take`. Not
  // more frames than have kUnhandledMost bytes wait there.
  using Post = std::function<void(std::function<void()>)>;
  void read(const Post& post, std::function<void(NodeFrame)> take);
  // Why it has ended.
  std::string problem() const { return channel_.problem(); }

 private:
  void send();

  // Shared with what was posted, which may live longer than the link.
  struct Unhandled {
    std::mutex mutex;
    std::condition_variable changed;
    Bytes bytes = 0;
  };

  remote::TcpChannel& channel_;
  const std::chrono::milliseconds silence_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<NodeFrame> unsent_;
  Bytes unsent_bytes_ = 0;
  bool ending_ = false;
  const std::shared_ptr<Unhandled> unhandled_ = std::make_shared<Unhandled>();
  std::thread sender_;
};

}  // namespace batchflow::service
