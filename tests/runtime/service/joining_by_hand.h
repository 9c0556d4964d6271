// Joins said by hand: what any client may send, and what it is answered.
#pragma once

#include <fcntl.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/channel.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/messages.h"

namespace batchflow::test {

class ByHand {
 public:
  explicit ByHand(const std::string& socket)
      : channel_(protocol::Channel::connect(socket, problem_)) {}

  // Shows what the path leads to when this is called. False: this user cannot open it.
  bool ask(const std::string& path, const std::string& reading = "") {
    const protocol::Descriptor shown(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!shown) return false;
    protocol::JoinRequest request;
    request.dataset = path;
    request.reading = reading;
    const int number = shown.get();
    return channel_.send(protocol::encode(request), {&number, 1}, soon());
  }
  bool ask(const protocol::JoinRequest& request) {
    return channel_.send(protocol::encode(request), {}, soon());
  }
  // The next message of any of these types; empty: none came.
  std::string hear(const std::vector<std::string>& types) {
    const auto until = soon();
    while (auto frame = channel_.receive(until)) {
      const std::string type = protocol::message_type(frame->text, problem_);
      for (const std::string& one : types)
        if (type == one) return frame->text;
    }
    return {};
  }
  std::string answer() { return hear({"admitted", "refused"}); }
  // The name of a class or sample. It is called once the job is admitted.
  std::string name(bool of_class, std::uint64_t key) {
    channel_.send(protocol::encode(protocol::NameMessage{of_class, key, std::nullopt}), {}, soon());
    return hear({of_class ? "class_name" : "sample_name"});
  }
  void close() { channel_.close("the test is done"); }

 private:
  static protocol::Channel::Clock::time_point soon() {
    return protocol::Channel::Clock::now() + std::chrono::seconds(30);
  }
  std::string problem_;
  protocol::Channel channel_;
};

}  // namespace batchflow::test
