#include "runtime/service/commands.h"

#include <unistd.h>

#include <map>

#include "core/config_error.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/service/node_config.h"

namespace batchflow {
namespace {

using Json = nlohmann::json;

// One that is asked: by whom, and with what.
struct Question {
  Commands::Service& service;
  uid_t user;
  const Json& arguments;

  std::string text(const char* key) const {
    const auto found = arguments.find(key);
    return found != arguments.end() && found->is_string() ? found->get<std::string>()
                                                          : std::string();
  }
};

std::string done() {
  return Json{{"type", "answer"}}.dump();
}
std::string failed(const std::string& message) {
  return Json{{"type", "error"}, {"message", message}}.dump(-1, ' ', false,
                                                            Json::error_handler_t::replace);
}

std::string status(const Question& asked) {
  return to_json(asked.service.snapshot());
}

std::string describe(const Question& asked) {
  return Json{{"type", "answer"}, {"text", asked.service.engine.describe()}}.dump();
}

std::string explain(const Question& asked) {
  return asked.service.decisions.to_json(asked.service.decisions_are_kept);
}

std::string journal_flush(const Question& asked) {
  const std::string problem = asked.service.logs.flush_journal();
  if (!problem.empty()) throw ConfigError(problem);
  return done();
}

std::string policy_set(const Question& asked) {
  const std::string policy = asked.text("policy");
  const std::size_t equals = policy.find('=');
  if (equals == std::string::npos) throw ConfigError("no kind; write kind=name, as eviction=sieve");
  check_policy(policy.substr(0, equals), policy.substr(equals + 1));
  choose_policy(asked.service.config, policy);
  asked.service.inbox.add(PolicyChanged{asked.service.inbox.keep(policy)});
  asked.service.say(fmt::format("policy {}, by user {}", policy, asked.user));
  return done();
}

std::string job_kill(const Question& asked) {
  const std::string job = asked.text("job");
  const std::size_t ended = asked.service.jobs.kill(job);
  if (ended == 0) throw ConfigError(fmt::format("no job is called '{}'", job));
  asked.service.say(fmt::format("job {} ended by user {}", job, asked.user));
  return done();
}

struct Handler {
  bool changes;  // something: for the service's own user and root
  std::string (*carry_out)(const Question& asked);
};

const std::map<std::string, Handler, std::less<>> kHandlers = {
    {"status", {false, status}},        {"describe", {false, describe}},
    {"explain", {false, explain}},      {"journal_flush", {true, journal_flush}},
    {"policy_set", {true, policy_set}}, {"job_kill", {true, job_kill}},
};

}  // namespace

std::string Commands::answer(uid_t user, std::string_view frame) {
  const Json message = Json::parse(frame, nullptr, false);
  const auto found = message.find("name");
  const auto command = found != message.end() && found->is_string()
                           ? kHandlers.find(found->get<std::string>())
                           : kHandlers.end();
  if (command == kHandlers.end())
    return failed("there is no such command here; is batchflowctl of another version?");
  if (command->second.changes && user != geteuid() && user != 0)
    return failed(fmt::format("user {} may look and not change; ask user {}", user, geteuid()));
  try {
    return command->second.carry_out({service_, user, message.value("arguments", Json::object())});
  } catch (const ConfigError& error) {
    return failed(error.what());
  }
}

}  // namespace batchflow
