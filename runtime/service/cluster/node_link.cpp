#include "runtime/service/cluster/node_link.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "fmt/format.h"

namespace batchflow::service {

NodeLink::NodeLink(remote::TcpChannel& channel, std::chrono::milliseconds silence)
    : channel_(channel), silence_(silence), sender_([this] { send(); }) {}

NodeLink::~NodeLink() {
  close();
}

void NodeLink::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_) channel_.shut("the service ends");
    ending_ = true;
    changed_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
}

void NodeLink::shut(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!ending_) channel_.shut(why);
}

void NodeLink::write(remote::RemoteKind kind, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  unsent_bytes_ += bytes.size();
  if (unsent_bytes_ > kUnsentMost)
    return channel_.shut(fmt::format("it takes nothing: {} MiB wait for it", unsent_bytes_ >> 20));
  unsent_.push_back({kind, std::move(bytes)});
  changed_.notify_all();
}

void NodeLink::write(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  write(remote::RemoteKind::text, {bytes.begin(), bytes.end()});
}

void NodeLink::send() {
  pthread_setname_np(pthread_self(), "bf-node-send");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, kBeat, [this] { return ending_ || !unsent_.empty(); });
    if (ending_) return;
    std::deque<NodeFrame> frames = std::exchange(unsent_, {});
    lock.unlock();
    if (frames.empty()) frames.emplace_back();
    Bytes sent = 0;
    for (const NodeFrame& one : frames) {
      if (!channel_.write(one.kind, one.bytes)) break;
      sent += one.bytes.size();
    }
    lock.lock();
    unsent_bytes_ -= sent;
    if (!channel_.is_open()) unsent_.clear();
  }
}

void NodeLink::read(const Post& post, std::function<void(NodeFrame)> take) {
  using Clock = remote::TcpChannel::Clock;
  const auto handle = std::make_shared<std::function<void(NodeFrame)>>(std::move(take));
  remote::TcpChannel::Head head;
  while (channel_.read_head(head, Clock::now() + silence_)) {
    if (head.bytes > kFrameMost)
      return channel_.shut(fmt::format("a frame of {} MiB", head.bytes >> 20));
    NodeFrame frame{head.kind, std::vector<std::byte>(head.bytes)};
    if (!channel_.read(frame.bytes)) return;
    if (frame.bytes.empty()) continue;
    const Bytes size = frame.bytes.size();
    {
      std::unique_lock lock(unhandled_->mutex);
      while (unhandled_->bytes > kUnhandledMost && channel_.is_open())
        unhandled_->changed.wait_for(lock, kBeat);
      unhandled_->bytes += size;
    }
    post([handle, size, unhandled = unhandled_,
          shared = std::make_shared<NodeFrame>(std::move(frame))] {
      (*handle)(std::move(*shared));
      const std::lock_guard lock(unhandled->mutex);
      unhandled->bytes -= size;
      unhandled->changed.notify_all();
    });
  }
}

}  // namespace batchflow::service
