// Commands that have the service do something: one question, whose answer says that it is done.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "configs/reader/output_flags.h"
#include "nlohmann/json.hpp"
#include "runtime/ctl/asking.h"
#include "runtime/ctl/commands.h"

namespace batchflow::ctl {

inline nlohmann::json nothing() {
  return nlohmann::json::object();
}

// Gives `command` the flag --json, for the service's answer; without it `shown`, if given, says
// what people see of that. `arguments` is called when the command line has been read.
inline void add_order(CLI::App& command, const std::string& service, Action& action,
                      std::string question, std::function<nlohmann::json()> arguments = nothing,
                      std::function<std::string(const nlohmann::json&)> shown = nullptr,
                      bool patient = false) {
  const auto outputs = std::make_shared<OutputFlags>();
  outputs->add(command, "json", "JSON");
  command.callback([=, &service, &action] {
    action = [=, &service] {
      outputs->check();
      const nlohmann::json answer = Asking(service).ask(question, arguments(), patient);
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
