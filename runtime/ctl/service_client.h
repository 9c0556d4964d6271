// A connection of batchflowctl to a service, for questions and commands, and the commands that only
// send one.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"
#include "runtime/ctl/commands.h"
#include "runtime/protocol/channel.h"

namespace batchflow::ctl {

// The service refused, or did not answer.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ServiceClient {
 public:
  // `service` is a socket's path; empty: the sockets where services usually are. Throws Failure.
  explicit ServiceClient(const std::string& service);

  // The service's answer, which must come within some seconds; `patient`: it may take any time.
  // Throws Failure, Interrupted.
  nlohmann::json ask(const std::string& name, nlohmann::json arguments = nlohmann::json::object(),
                     bool patient = false);

 private:
  protocol::Channel channel_;
};

inline nlohmann::json nothing() {
  return nlohmann::json::object();
}

// Gives `command` its action, which asks the service to do something, and the flag --json, which
// shows the service's answer: that it was done. Without the flag people see what `shown` makes of
// the answer, or nothing. `arguments` is called when the command line has been read.
void add_request(CLI::App& command, const std::string& service, Action& action,
                 std::string question, std::function<nlohmann::json()> arguments = nothing,
                 std::function<std::string(const nlohmann::json&)> shown = nullptr,
                 bool patient = false);

}  // namespace batchflow::ctl
