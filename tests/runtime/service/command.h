// What batchflowctl asks a service, asked by a test.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/channel.h"

namespace batchflow::test {

// The service's answer, or error; null if there is none.
inline nlohmann::json command(const std::string& socket, const std::string& name,
                              nlohmann::json arguments = nlohmann::json::object()) {
  std::string problem;
  protocol::Channel channel = protocol::Channel::connect(socket, problem);
  const auto deadline = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  const nlohmann::json question = {
      {"type", "command"}, {"name", name}, {"arguments", std::move(arguments)}};
  if (!channel.is_open() || !channel.send(question.dump(), {}, deadline)) return {};
  const auto frame = channel.receive(deadline);
  return frame ? nlohmann::json::parse(frame->text, nullptr, false) : nlohmann::json();
}

}  // namespace batchflow::test
