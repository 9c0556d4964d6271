// What a service says of itself, as batchflowctl asks it.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "doctest/doctest.h"
#include "runtime/protocol/channel.h"

namespace batchflow::test {

inline nlohmann::json status_of(const std::string& socket) {
  std::string problem;
  protocol::Channel channel = protocol::Channel::connect(socket, problem);
  REQUIRE(channel.is_open());
  const auto deadline = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  REQUIRE(channel.send(R"({"type": "command", "name": "status", "arguments": {}})", {}, deadline));
  const auto frame = channel.receive(deadline);
  REQUIRE(frame);
  return nlohmann::json::parse(frame->text);
}

}  // namespace batchflow::test
