// A connection to the service, for questions and orders.
#pragma once

#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"
#include "runtime/protocol/channel.h"

namespace batchflow::ctl {

// The service answered that it will not, or did not answer.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Asking {
 public:
  // `service` is a socket's path; empty: where services usually are. Throws Failure.
  explicit Asking(const std::string& service);

  // What the service answers within some seconds; `patient`: however long that takes. Throws
  // Failure, Interrupted.
  nlohmann::json ask(const std::string& name, nlohmann::json arguments = nlohmann::json::object(),
                     bool patient = false);

 private:
  Channel channel_;
};

}  // namespace batchflow::ctl
