// A connection of batchflowctl to a service, for questions and commands.
#pragma once

#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"
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

}  // namespace batchflow::ctl
