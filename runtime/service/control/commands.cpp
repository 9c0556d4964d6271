#include "runtime/service/control/commands.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "policies/registry.h"
#include "runtime/protocol/frame.h"
#include "runtime/protocol/records.h"
#include "runtime/service/control/engine_changes.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {
namespace {

using Json = nlohmann::json;

// A command that was asked: by which user, and with what.
struct Question {
  Commands::Service& service;
  uid_t user;
  const Json& arguments;
  const Commands::Reply& reply;  // for what is answered later

  std::string text(const char* key) const {
    const auto found = arguments.find(key);
    return found != arguments.end() && found->is_string() ? found->get<std::string>()
                                                          : std::string();
  }
  void say(const std::string& what) const { service.say({what, LogLevel::info, "command", user}); }
};

std::string done() {
  return Json{{"type", "answer"}}.dump();
}
std::string failed(const std::string& message) {
  return Json{{"type", "error"}, {"message", message}}.dump(-1, ' ', false,
                                                            Json::error_handler_t::replace);
}

std::string status(const Question& asked) {
  const auto models = asked.arguments.find("models");
  const bool with_models = models != asked.arguments.end() && *models == true;
  return to_json(as_seen_by(asked.user, asked.service.snapshot()), with_models);
}

std::string describe(const Question& asked) {
  return Json{{"type", "answer"}, {"text", asked.service.engine.describe()}}.dump();
}

std::string explain(const Question& asked) {
  return asked.service.decisions.to_json(asked.service.decisions_are_kept);
}

std::string journal_flush(const Question& asked) {
  const std::string problem = asked.service.recorder.flush();
  if (!problem.empty()) throw ConfigError(problem);
  return done();
}

std::string answered(const std::string& text) {
  return Json{{"type", "answer"}, {"text", text}}.dump(-1, ' ', false,
                                                       Json::error_handler_t::replace);
}

// A line for each kind of policy that changes.
std::string difference(const engine::PolicyTexts& before, const engine::PolicyTexts& after) {
  std::vector<std::string> was;
  engine::visit_policies(before,
                         [&](std::string_view, const std::string& text) { was.push_back(text); });
  std::string text;
  engine::visit_policies(
      after, [&, at = was.begin()](std::string_view kind, const std::string& now) mutable {
        if (*at != now) text += fmt::format("{}: {} -> {}\n", kind, *at, now);
        ++at;
      });
  return text.empty() ? "nothing changes: that is what decides already\n" : text;
}

// All policies of the preset, and the settings that they need.
std::string preset_set(const Question& asked, const std::string& name) {
  const engine::PolicyTexts before = asked.service.config.policies;
  engine::EngineConfig wanted = asked.service.config;
  engine::apply_preset(wanted, name);
  engine::visit_policies(wanted.policies, [](std::string_view kind, const std::string& text) {
    check_policy(kind, text);
  });
  engine::name_exactly(wanted.policies, policies::policy_list());
  const EngineChanges changes = engine_changes(asked.service.config, wanted);
  asked.service.config = wanted;
  changes.tell(asked.service.inbox);
  asked.say(fmt::format("user {} set preset {}", user_name(asked.user), name));
  engine::visit_policies(wanted.policies, [&](std::string_view kind, const std::string& text) {
    if (const std::string_view note = policy_note(kind, text); !note.empty())
      asked.say(fmt::format("policy {}={}{}", kind, text, note));
  });
  std::string text = difference(before, wanted.policies);
  for (const std::string& setting : changes.settings) text += setting + "\n";
  return answered(text + "jobs follow from their next epoch on; no batch is lost\n");
}

std::string policy_set(const Question& asked) {
  const std::string policy = asked.text("policy");
  const engine::KindAndText wanted = engine::split_policy(policy);
  if (wanted.kind == "preset") return preset_set(asked, std::string(wanted.text));
  const std::string kind(wanted.kind);
  const std::string text =
      policies::policy_list().exactly(engine::policy_name(kind).kind, wanted.text);
  check_policy(kind, text);
  const engine::PolicyTexts before = asked.service.config.policies;
  engine::set_policy(asked.service.config.policies, kind, text);
  asked.service.inbox.add(
      engine::PolicyChanged{asked.service.inbox.keep(fmt::format("{}={}", kind, text))});
  asked.say(fmt::format("user {} set policy {}={}{}", user_name(asked.user), kind, text,
                        policy_note(kind, text)));
  return answered(difference(before, asked.service.config.policies));
}

std::string policy_install(const Question& asked) {
  Plugins::Install install;
  install.file = asked.text("file");
  const auto flag = asked.arguments.find("uncertified");
  install.uncertified = flag != asked.arguments.end() && flag->is_boolean() && flag->get<bool>();
  const auto number = [&](const char* key, double usual) {
    const auto found = asked.arguments.find(key);
    return found != asked.arguments.end() && found->is_number() ? found->get<double>() : usual;
  };
  install.watch = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::clamp(number("watch_s", 60), 0.0, 86'400.0) * 1000));
  install.most_worse = number("most_worse", install.most_worse);
  install.shadow = asked.arguments.value("shadow", false);
  asked.say(fmt::format("user {} installs plugin {}{}", user_name(asked.user), install.file,
                        install.uncertified ? ", certified or not" : ""));
  asked.service.plugins.install(
      install, [reply = asked.reply](const std::string& done, const std::string& problem) {
        reply(problem.empty() ? answered(done + "\n") : failed(problem));
      });
  return {};
}

// Begins shadows, or shows what they would have hit.
std::string policy_shadow(const Question& asked) {
  const auto list = asked.arguments.find("policies");
  const bool stops = asked.arguments.value("stop", false);
  if (stops) asked.service.plugins.shadow({});
  if (!stops && list != asked.arguments.end() && list->is_array() && !list->empty()) {
    std::vector<std::string> policies;
    for (const Json& one : *list) {
      const std::string text = one.is_string() ? one.get<std::string>() : "";
      const auto [kind, name] = engine::split_policy(text);
      check_policy(kind, name);
      policies.push_back(fmt::format(
          "{}={}", kind, policies::policy_list().exactly(engine::policy_name(kind).kind, name)));
    }
    asked.service.plugins.shadow(policies);
  }
  Json shadows = Json::array();
  for (const engine::Engine::Shadow& one : asked.service.engine.shadows())
    shadows.push_back({{"eviction", one.eviction},
                       {"policy", one.policy},
                       {"live", one.live},
                       {"requests", one.requests},
                       {"live_hits", one.live_hits},
                       {"hits", one.hits},
                       {"live_missed_bytes", one.live_missed},
                       {"missed_bytes", one.missed}});
  return Json{{"type", "answer"}, {"named", asked.service.plugins.shadows()}, {"shadows", shadows}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string policy_reset(const Question& asked) {
  const std::string what = asked.service.plugins.reset(asked.text("hash"));
  asked.say(fmt::format("user {}: {}", user_name(asked.user), what));
  return answered(what + "\n");
}

std::string policy_plugins(const Question& asked) {
  Json loaded = Json::array(), quarantined = Json::array();
  for (const RunningPlugin& one : running_plugins())
    loaded.push_back(
        {{"name", one.file->footer().name},
         {"version", one.file->footer().version},
         {"hash", one.file->hash()},
         {"policies", one.file->footer().policies},
         {"process", one.apart == nullptr ? getpid() : one.apart->process().process()}});
  for (const Quarantined& one : asked.service.plugins.quarantined())
    quarantined.push_back({{"hash", one.hash},
                           {"exit", static_cast<int>(one.exit)},
                           {"reason", exit_text(one.exit)},
                           {"why", one.why}});
  Json ejected = Json::array();
  for (const Plugins::Ejected& one : asked.service.plugins.ejected())
    ejected.push_back({{"policy", one.scope},
                       {"plugin", one.from},
                       {"exit", static_cast<int>(one.exit)},
                       {"reason", exit_text(one.exit)},
                       {"why", one.why}});
  return Json{
      {"type", "answer"}, {"plugins", loaded}, {"ejected", ejected}, {"quarantined", quarantined}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string job_kill(const Question& asked) {
  const std::string job = asked.text("job");
  const std::size_t ended = asked.service.jobs.kill(job);
  if (ended == 0) throw ConfigError(fmt::format("no job is called '{}'", job));
  asked.say(fmt::format("user {} ended job {}", user_name(asked.user), job));
  return done();
}

// The job's own user may ask for it, too: a script of that user has allowed it.
std::string job_ideal(const Question& asked) {
  const std::string job = asked.text("job");
  const std::uint64_t steps = asked.arguments.value("steps", std::uint64_t{0});
  if (steps == 0 || steps > protocol::kIdealStepsMost)
    throw ConfigError(fmt::format("{} steps; write 1 to {}", steps, protocol::kIdealStepsMost));
  const bool is_owner = asked.user == geteuid() || asked.user == 0;
  const std::string problem =
      asked.service.jobs.ask_ideal(job, is_owner ? std::nullopt : std::optional(asked.user), steps);
  if (!problem.empty()) throw ConfigError(problem);
  asked.say(
      fmt::format("user {} has job {} give its next batch {} times more, to see how fast it "
                  "is without waits",
                  user_name(asked.user), job, steps));
  return done();
}

std::string drain(const Question& asked) {
  asked.say(fmt::format("user {} asked for a drain", user_name(asked.user)));
  asked.service.drain();
  return done();
}

std::string reload(const Question& asked) {
  asked.service.reload(
      [reply = asked.reply](const std::string& changed, const std::string& problem) {
        reply(problem.empty() ? Json{{"type", "answer"}, {"text", changed}}.dump(
                                    -1, ' ', false, Json::error_handler_t::replace)
                              : failed(problem));
      });
  return {};
}

// Each user may see the limits of that user, and what is taken of them.
std::string quota_list(const Question& asked) {
  std::map<uid_t, UserLimits> shown = asked.service.users.quotas().of_some;
  const bool sees_all = asked.user == 0 || asked.user == geteuid();
  const std::vector<Jobs::Status> jobs = asked.service.snapshot().jobs;
  for (const Jobs::Status& job : jobs)
    shown.emplace(job.user, asked.service.users.limits(job.user));
  shown.emplace(asked.user, asked.service.users.limits(asked.user));
  Json users = Json::array();
  for (const auto& [user, limits] : shown) {
    if (!sees_all && user != asked.user) continue;
    std::uint64_t count = 0;
    Bytes bytes = 0;
    for (const Jobs::Status& job : jobs) {
      if (job.user != user) continue;
      ++count;
      bytes += job.batch_bytes;
    }
    users.push_back({{"user", user_name(user)},
                     {"uid", user},
                     {"jobs", count},
                     {"jobs_most", limits.jobs},
                     {"batch_bytes", bytes},
                     {"batch_bytes_most", limits.batch_bytes},
                     {"connections", asked.service.users.connections(user)},
                     {"connections_most", limits.connections},
                     {"messages_per_s_most", limits.messages_per_s},
                     {"frame_bytes_most", limits.frame_bytes},
                     {"weight", limits.weight}});
  }
  return Json{{"type", "answer"}, {"users", std::move(users)}}.dump(-1, ' ', false,
                                                                    Json::error_handler_t::replace);
}

// The new limit holds until the next start or reload: only the node file lasts.
std::string quota_set(const Question& asked) {
  const std::string name = asked.text("user");
  const std::optional<uid_t> user = find_user(name);
  if (!user)
    throw ConfigError(
        fmt::format("this machine knows no user '{}'; write a name, or a number", name));
  UserLimits limits = asked.service.users.limits(*user);
  const auto changes = asked.arguments.find("limits");
  if (changes == asked.arguments.end() || !changes->is_array() || changes->empty())
    throw ConfigError("nothing to set; write key=value, as jobs=4 or weight=2");
  for (const Json& one : *changes) {
    if (!one.is_string()) throw ConfigError("a limit is written key=value, as jobs=4");
    change_limit(limits, one.get<std::string>());
  }
  asked.service.users.set(*user, limits);
  asked.say(fmt::format("the quota of user {} is changed by user {}", user_name(*user),
                        user_name(asked.user)));
  return done();
}

ServedDataset& dataset_of(const Question& asked) {
  const std::string name = asked.text("dataset");
  ServedDataset* const dataset = asked.service.datasets.find(std::string_view(name));
  if (!dataset)
    throw ConfigError(fmt::format("no dataset is called '{}'; see batchflowctl datasets", name));
  return *dataset;
}

ServedDataset& open_dataset_of(const Question& asked) {
  ServedDataset& dataset = dataset_of(asked);
  if (!dataset.index)
    throw ConfigError(
        fmt::format("no job has read '{}' for long, and it was let go; have it served "
                    "by a name (--dataset NAME={})",
                    dataset.name, dataset.name));
  return dataset;
}

std::string pin(const Question& asked) {
  ServedDataset& dataset = open_dataset_of(asked);
  asked.service.joining.openings().keep(dataset, engine::Keep::always);
  asked.say(fmt::format("dataset {} is pinned by user {}", dataset.name, user_name(asked.user)));
  return done();
}

std::string unpin(const Question& asked) {
  ServedDataset& dataset = dataset_of(asked);
  asked.service.joining.openings().keep(dataset, engine::Keep::as_needed);
  asked.say(
      fmt::format("dataset {} is pinned no more, by user {}", dataset.name, user_name(asked.user)));
  return done();
}

// What jobs read stays, or they would have to wait for it again.
std::string drop(const Question& asked) {
  ServedDataset& dataset = dataset_of(asked);
  for (const Jobs::Status& job : asked.service.snapshot().jobs) {
    if (job.dataset == dataset.name && !job.left)
      throw ConfigError(fmt::format("job '{}' reads dataset '{}'; drop it when no job does",
                                    job.name, dataset.name));
  }
  asked.service.joining.openings().keep(dataset, engine::Keep::dropped);
  asked.say(fmt::format("dataset {} is dropped by user {}", dataset.name, user_name(asked.user)));
  return done();
}

std::string warm(const Question& asked) {
  ServedDataset& dataset = open_dataset_of(asked);
  const ServedPipeline& pipeline = asked.service.joining.pipelines().pipeline_for(
      asked.text("pipeline"), dataset, Order::relaxed);
  if (!asked.service.warming.begin(dataset, pipeline))
    throw ConfigError(fmt::format("dataset '{}' is being read ahead already", dataset.name));
  asked.say(fmt::format("dataset {} is read ahead for pipeline {}, by user {}", dataset.name,
                        pipeline.name, user_name(asked.user)));
  return Json{{"type", "answer"}, {"pipeline", pipeline.name}}.dump();
}

std::string warm_list(const Question& asked) {
  Json all = Json::array();
  for (const Warming::Status& one : asked.service.warming.status())
    all.push_back({{"dataset", one.dataset},
                   {"pipeline", one.pipeline},
                   {"samples", one.samples},
                   {"of", one.samples_wanted},
                   {"over", one.over},
                   {"problem", one.problem}});
  return Json{{"type", "answer"}, {"warming", std::move(all)}}.dump();
}

struct Handler {
  bool is_owners;  // for the service's own user and root: it changes something, or names every job
  std::string (*carry_out)(const Question& asked);
};

const std::map<std::string, Handler, std::less<>> kHandlers = {
    {"status", {false, status}},
    {"describe", {true, describe}},
    {"explain", {true, explain}},
    {"journal_flush", {true, journal_flush}},
    {"policy_set", {true, policy_set}},
    {"policy_install", {true, policy_install}},
    {"policy_shadow", {true, policy_shadow}},
    {"policy_reset", {true, policy_reset}},
    {"policy_plugins", {true, policy_plugins}},
    {"job_kill", {true, job_kill}},
    {"job_ideal", {false, job_ideal}},
    {"drain", {true, drain}},
    {"reload", {true, reload}},
    {"quota_list", {false, quota_list}},
    {"quota_set", {true, quota_set}},
    {"warm", {true, warm}},
    {"pin", {true, pin}},
    {"unpin", {true, unpin}},
    {"drop", {true, drop}},
    {"warm_list", {true, warm_list}},
};

}  // namespace

void Commands::answer(uid_t user, std::string_view frame, const Reply& reply) {
  const Reply bounded = [reply](std::string text) {
    if (text.size() > protocol::kFrameMost)
      text =
          failed(fmt::format("the answer takes {} bytes, and a message holds {}; the page "
                             "/status.json of the service's --http has no such limit",
                             text.size(), protocol::kFrameMost));
    reply(std::move(text));
  };
  if (std::string text = carry_out(user, frame, bounded); !text.empty()) bounded(std::move(text));
}

std::string Commands::carry_out(uid_t user, std::string_view frame, const Reply& reply) {
  const Json message = Json::parse(frame, nullptr, false);
  const auto found = message.find("name");
  const auto command = found != message.end() && found->is_string()
                           ? kHandlers.find(found->get<std::string>())
                           : kHandlers.end();
  if (command == kHandlers.end())
    return failed("there is no such command here; is batchflowctl of another version?");
  if (command->second.is_owners && user != geteuid() && user != 0)
    return failed(fmt::format(
        "only {}root may use '{}': it changes the service or shows all jobs",
        geteuid() == 0 ? "" : fmt::format("user {} and ", user_name(geteuid())), command->first));
  try {
    const Json arguments = message.value("arguments", Json::object());
    return command->second.carry_out({service_, user, arguments, reply});
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace batchflow::service
