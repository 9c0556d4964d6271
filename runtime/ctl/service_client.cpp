#include "runtime/ctl/service_client.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/client/session.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAnswerWithin{10};
constexpr std::chrono::milliseconds kLookUpEvery{200};

}  // namespace

ServiceClient::ServiceClient(const std::string& service) {
  std::string tried;
  for (const std::string& address : client::service_addresses(service.c_str())) {
    if (protocol::is_remote(address))
      throw Failure(fmt::format(
          "{}: a service takes no commands from other machines; run batchflowctl on the service's "
          "machine, or name another service's socket with --service",
          address));
    std::string problem;
    channel_ = protocol::Channel::connect(address, problem);
    if (channel_.is_open()) return;
    tried += (tried.empty() ? "" : "; ") + problem;
  }
  throw Failure(fmt::format(
      "no service answers ({}); start batchflowd, or name its socket with --service", tried));
}

json ServiceClient::ask(const std::string& name, json arguments, bool patient) {
  const auto deadline = protocol::Channel::Clock::now() + kAnswerWithin;
  const json question = {{"type", "command"}, {"name", name}, {"arguments", std::move(arguments)}};
  if (!channel_.send(question.dump(), {}, deadline)) throw Failure(channel_.problem());
  std::optional<protocol::Frame> frame =
      channel_.receive(patient ? protocol::Channel::kAtOnce : deadline);
  while (patient && !frame && channel_.is_open()) {
    frame = channel_.receive(protocol::Channel::Clock::now() + kLookUpEvery);
    output::check_interrupted();
  }
  if (!frame)
    throw Failure(channel_.is_open()
                      ? fmt::format("the service did not answer within {} s", kAnswerWithin.count())
                      : channel_.problem());
  json answer = json::parse(frame->text, nullptr, false);
  if (!answer.is_object()) throw Failure("the service's answer is not JSON");
  if (answer.value("type", "") != "answer")
    throw Failure(answer.value("message", "the service refused without a reason"));
  answer.erase("type");
  return answer;
}

void add_request(CLI::App& command, const std::string& service, Action& action,
                 std::string question, std::function<json()> arguments,
                 std::function<std::string(const json&)> shown, bool patient) {
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(command, "json", "JSON");
  command.callback([=, &service, &action] {
    action = [=, &service] {
      outputs->check();
      const json answer = ServiceClient(service).ask(question, arguments(), patient);
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
