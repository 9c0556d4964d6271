// Commands that ask the service to do something. The answer says that it was done.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "nlohmann/json.hpp"
#include "programs/output/output_flags.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {

inline nlohmann::json nothing() {
  return nlohmann::json::object();
}

// Gives `command` its action and the flag --json, which shows the service's answer. Without the
// flag people see what `shown` makes of the answer, or nothing. `arguments` is called when the
// command line has been read.
inline void add_request(CLI::App& command, const std::string& service, Action& action,
                        std::string question, std::function<nlohmann::json()> arguments = nothing,
                        std::function<std::string(const nlohmann::json&)> shown = nullptr,
                        bool patient = false) {
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(command, "json", "JSON");
  command.callback([=, &service, &action] {
    action = [=, &service] {
      outputs->check();
      const nlohmann::json answer = ServiceClient(service).ask(question, arguments(), patient);
      if (outputs->wanted("json")) {
        outputs->write("json", answer.dump(2) + "\n");
      } else if (shown) {
        outputs->write_text(shown(answer));
      }
      return 0;
    };
  });
}

}  // namespace batchflow::ctl
