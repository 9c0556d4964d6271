#include "runtime/service/plugins/plugins.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/config_value.h"
#include "core/log/event_codec.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "policies/apart/question.h"
#include "policies/plugin/failures.h"

namespace batchflow::service {
namespace {

namespace fs = std::filesystem;

// One wrong answer may come of a bad moment, but not so many.
constexpr std::uint64_t kRefusedMost = 10;
constexpr Duration kHeldBackMost = std::chrono::milliseconds(100);

// The hash behind `@` in a policy's text; empty: it is built in.
std::string_view from_of(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + 1);
  return rest.substr(0, rest.find(':'));
}

std::vector<std::string> texts_of(const engine::PolicyTexts& policies) {
  std::vector<std::string> texts;
  engine::visit_policies(policies,
                         [&](std::string_view, const std::string& text) { texts.push_back(text); });
  return texts;
}

std::string policy_text(const engine::PolicyTexts& policies, std::string_view kind) {
  std::string found;
  engine::visit_policies(policies, [&](std::string_view one, const std::string& text) {
    if (one == kind) found = text;
  });
  return found;
}

// A process that was lost is replaced so many times.
constexpr std::uint32_t kReplacedMost = 3;

PluginExit exit_of(child::End end) {
  switch (end) {
    case child::End::failed:
      return PluginExit::failed;
    case child::End::hung:
      return PluginExit::hung;
    case child::End::crashed:
      return PluginExit::crashed;
    case child::End::lost:
      break;
  }
  return PluginExit::lost;
}

// Without blame, a plugin may be loaded again.
bool is_quarantined(PluginExit exit) {
  return exit != PluginExit::stalled && exit != PluginExit::lost;
}

// Whether jobs ask for such a policy themselves. `policy` is as a failure has it: `mixture
// mine@3f2a91bc07d1`.
bool is_for_jobs(std::string_view policy) {
  for (std::size_t kind = 0; kind < engine::kPolicyKinds; ++kind) {
    const auto one = static_cast<engine::PolicyKind>(kind);
    if (engine::is_asked_for_by_jobs(one) &&
        policy.starts_with(fmt::format("{} ", engine::policy_kind_name(one))))
      return true;
  }
  return false;
}

bool brings_for_jobs(std::string_view from) {
  for (const RunningPlugin& one : running_plugins()) {
    if (one.file->short_hash() == from &&
        std::any_of(one.policies.begin(), one.policies.end(),
                    [](const auto* entry) { return engine::is_asked_for_by_jobs(entry->kind()); }))
      return true;
  }
  return false;
}

std::string text_of(const engine::Question& question) {
  return fmt::format("{}: {}", question.scope.text(),
                     std::string_view(question.text.data(), question.text.size()));
}

}  // namespace

Plugins::Plugins(const fs::path& state, PluginSettings settings, Host host)
    : state_(state),
      settings_(std::move(settings)),
      host_(std::move(host)),
      quarantine_(quarantine_of(state)) {
  finish_exit_files(state_);
  plugin::tell_of_failures([this](plugin::Failure& failure) {
    engine::Question question;
    // The last question that was noted may be of another policy than this failure.
    if (!host_.engine.question(question) || !failure.policy.starts_with(engine::policy_kind_name(
                                                engine::policy_name(question.scope.name).kind)))
      return;
    failure.scope = question.scope.text();
    failure.asked = text_of(question);
  });
  watch_if_needed();
}

void Plugins::watch_if_needed() {
  if (!guard_ && !plugin::loaded().empty())
    guard_ = std::make_unique<HangGuard>(quarantine_.descriptor(), state_, host_.engine, events_);
}

bool Plugins::any_in_force() const {
  const std::vector<std::string> texts = texts_of(host_.config.policies);
  return std::any_of(texts.begin(), texts.end(),
                     [](const std::string& text) { return !from_of(text).empty(); });
}

struct Plugins::Allowed {
  std::shared_ptr<const plugin::PluginFile> file;
  Permission permitted;
  // For a plugin that runs apart, if it has no process yet.
  std::shared_ptr<child::PolicyProcess> process;
  std::vector<std::byte> description;
};

Plugins::Allowed Plugins::allowed(const Install& install) const {
  const auto file = std::make_shared<const plugin::PluginFile>(plugin::find_file(install.file));
  if (const auto found = quarantine_.find(file->hash())) {
    throw ConfigError(fmt::format("plugin {}: {}", file->path().string(), refusal(*file, *found)));
  }
  return {file, permission(*file, settings_, install.uncertified || settings_.uncertified), {}, {}};
}

Plugins::~Plugins() {
  // What it does while it is loaded may take any time.
  if (installing_ && loading_ > 0) kill(loading_, SIGKILL);
  if (trying_.joinable()) trying_.join();
  plugin::tell_of_failures({});
}

void Plugins::install(Install install, Done done) {
  if (installing_)
    throw ConfigError("another plugin is being installed; try again when it is done");
  Allowed allowed = this->allowed(install);
  const PluginApart* const apart = plugin_apart(allowed.file->hash());
  if (apart == nullptr ? !allowed.permitted.certified : apart->process().failure().has_value()) {
    // It ends with the thread that starts it, which must be this one.
    allowed.process = std::make_shared<child::PolicyProcess>(*allowed.file);
  }
  installing_ = true;
  if (trying_.joinable()) trying_.join();
  loading_ = allowed.process ? allowed.process->process() : -1;
  // What a plugin does when it is loaded may take any time.
  trying_ = std::thread([this, install = std::move(install), allowed = std::move(allowed),
                         done = std::move(done)]() mutable {
    std::string problem;
    try {
      plugin::try_to_load(allowed.file);
      if (allowed.process) allowed.description = allowed.process->begin();
    } catch (const std::exception& error) {
      problem = fmt::format("plugin {}: {}", allowed.file->path().string(), error.what());
    }
    host_.post([this, install, allowed, done, problem] {
      installing_ = false;
      if (!problem.empty()) return done("", problem);
      try {
        done(put_in_force(install, allowed), "");
      } catch (const std::exception& error) {
        done("", error.what());
      }
    });
  });
}

std::string Plugins::put_in_force(const Install& install, const Allowed& allowed) {
  PluginApart* apart = plugin_apart(allowed.file->hash());
  std::string note = allowed.permitted.note;
  if (allowed.process && apart != nullptr) {
    apart->replace(allowed.process);
  } else if (allowed.process) {
    apart = &add_plugin_apart(
        std::make_unique<PluginApart>(allowed.file, allowed.process, allowed.description));
  } else if (apart != nullptr && allowed.permitted.certified) {
    // What it is called in the journal must not change its meaning there.
    note += ", but it stays in its process until the service starts anew";
  }
  const std::vector<const engine::PolicyEntry*> brought =
      apart != nullptr ? apart->described().policies()
                       : plugin::load_tried(allowed.file).policies();
  const Instant now = host_.now();
  watch_if_needed();
  const plugin::PluginFile& file = *allowed.file;
  const plugin::Footer& footer = file.footer();
  host_.say(fmt::format("plugin {} {} ({}) is installed: {}", footer.name, footer.version,
                        file.short_hash(), note));
  if (install.shadow) {
    std::vector<std::string> shown = shadows_;
    for (const engine::PolicyEntry* entry : brought) {
      if (entry->kind() == engine::PolicyKind::eviction && !entry->clairvoyant)
        shown.push_back(fmt::format("eviction={}@{}", entry->name, entry->from));
    }
    if (shown.size() == shadows_.size())
      throw ConfigError(fmt::format(
          "plugin {} has no eviction policy, and only these can be shadows", footer.name));
    shadow(shown);
    return fmt::format("{} {} ({}): {}\nshown all requests: {}; it decides nothing", footer.name,
                       footer.version, file.short_hash(), note, fmt::join(shadows_, ", "));
  }
  engine::PolicyTexts wanted = host_.config.policies;
  std::vector<std::string> set, for_jobs;
  for (const engine::PolicyEntry* entry : brought) {
    if (entry->clairvoyant || entry->simulated_only) continue;  // a live service cannot use it
    const std::string kind(engine::policy_kind_name(entry->kind()));
    const std::string text = fmt::format("{}@{}", entry->name, entry->from);
    if (engine::is_asked_for_by_jobs(entry->kind())) {
      for_jobs.push_back(fmt::format("{}={}", kind, text));
      continue;
    }
    engine::set_policy(wanted, kind, text);
    set.push_back(fmt::format("{}={}", kind, text));
  }
  const std::string jobs_may =
      for_jobs.empty() ? "" : fmt::format("\njobs may ask for: {}", fmt::join(for_jobs, ", "));
  if (set.empty() && !for_jobs.empty())
    return fmt::format("{} {} ({}): {}{}", footer.name, footer.version, file.short_hash(), note,
                       jobs_may);
  if (set.empty())
    return fmt::format("plugin {} is loaded; none of its policies can run in a live service",
                       footer.name);
  const double stall_before = watch_.begin(file.short_hash(), host_.config.policies, host_.waits(),
                                           now, install.watch, install.most_worse);
  std::erase_if(ejected_, [&](const Ejected& one) { return one.from == file.short_hash(); });
  // What others proposed is not held against it.
  for (const engine::Engine::Refusals& one : host_.engine.refusals())
    refused_before_[one.policy.text()] = one.count;
  host_.change(wanted);
  // Of a process that was replaced, what was made before gets no answers.
  if (apart != nullptr && allowed.process) {
    host_.renew(set);
    shadow(std::vector<std::string>(shadows_));
  }
  return fmt::format(
      "{} {} ({}): {}\nin force: {}{}\njobs waited {:.1f} % of their time until now; it is taken "
      "back if that grows by more than {} points within {} s",
      footer.name, footer.version, file.short_hash(), note, fmt::join(set, ", "), jobs_may,
      stall_before, install.most_worse,
      std::chrono::duration_cast<std::chrono::seconds>(install.watch).count());
}

void Plugins::shadow(const std::vector<std::string>& policies) {
  host_.shadow(policies);
  shadows_ = policies;
}

std::string Plugins::reset(std::string_view hash) {
  if (hash.size() < 6)
    throw ConfigError("write six digits of the hash or more; see batchflowctl policy list");
  if (quarantine_.let_in(hash) == 0)
    throw ConfigError(fmt::format("no quarantined plugin has a hash that begins with {}", hash));
  return fmt::format("plugin {} may be loaded again", hash);
}

void Plugins::record_new(Recorder& recorder) {
  for (; recorded_ < plugins_apart().size(); ++recorded_)
    recorder.record_policies(plugins_apart()[recorded_]->description());
}

// A process that has failed answers nothing any more.
void Plugins::look_apart(Instant now) {
  for (const auto& one : plugins_apart()) {
    const auto& failure = one->process().failure();
    if (!failure || one->has_ended() || one.get() == reviving_) continue;
    if (failure->end == child::End::lost && one->lost() < kReplacedMost) {
      revive(*one, failure->why);
    } else {
      const std::string asked = apart::question_text(one->process().last_question());
      eject(one->file().short_hash(), {exit_of(failure->end), failure->why, asked}, now);
      one->end();
    }
  }
}

// Until that is done, its policies answer what starves no job.
void Plugins::revive(PluginApart& plugin, const std::string& why) {
  if (installing_) return;
  const std::string from = plugin.file().short_hash();
  const auto in_force = [this, from] {
    std::vector<std::string> policies;
    engine::visit_policies(host_.config.policies,
                           [&](std::string_view kind, const std::string& text) {
                             if (from_of(text) == from)
                               policies.push_back(fmt::format("{}={}", kind, text));
                           });
    return policies;
  };
  const bool shadows = std::any_of(shadows_.begin(), shadows_.end(),
                                   [&](const std::string& one) { return from_of(one) == from; });
  if (in_force().empty() && !shadows) {
    eject(from, {PluginExit::lost, why, ""}, host_.now());
    return plugin.end();
  }
  host_.say({fmt::format("plugin {} ({}): {}; it gets another process", plugin.file().footer().name,
                         from, why),
             LogLevel::error});
  std::shared_ptr<child::PolicyProcess> process;
  try {
    process = std::make_shared<child::PolicyProcess>(plugin.file());
  } catch (const ConfigError& error) {
    return eject(from, {PluginExit::lost, error.what(), ""}, host_.now());
  }
  plugin.count_lost();
  installing_ = true;
  reviving_ = &plugin;
  if (trying_.joinable()) trying_.join();
  loading_ = process->process();
  trying_ = std::thread([this, process, in_force, from, &plugin] {
    std::string problem;
    try {
      process->begin();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    host_.post([this, process, in_force, from, problem, &plugin] {
      installing_ = false;
      reviving_ = nullptr;
      if (!problem.empty()) return eject(from, {PluginExit::lost, problem, ""}, host_.now());
      plugin.replace(process);
      // As things are by now: others may have been chosen meanwhile.
      host_.renew(in_force());
      shadow(std::vector<std::string>(shadows_));
    });
  });
}

void Plugins::look(Instant now) {
  look_apart(now);
  for (const plugin::Failure& failure : plugin::take_failures()) {
    const std::string from(from_of(failure.policy));
    const ExitReport exit{PluginExit::failed, fmt::format("{}: {}", failure.policy, failure.why),
                          failure.asked};
    if (is_for_jobs(failure.policy)) {
      eject_from_jobs(from, exit, now);
      continue;
    }
    if (failure.scope.empty() || !eject_one(engine::policy_scope(failure.scope), from, exit, now))
      eject(from, exit, now);
  }
}

// Built-in policies propose nothing that is refused, and hold nothing back for so long.
void Plugins::look_for_refusals(Instant now) {
  const std::uint64_t all = host_.engine.counters().refused_proposals;
  if (all <= refused_seen_ + kRefusedMost) return;
  refused_seen_ = all;
  for (const engine::Engine::Refusals& one : host_.engine.refusals()) {
    const std::uint64_t before = std::exchange(refused_before_[one.policy.text()], one.count);
    const std::uint64_t more = one.count - std::min(before, one.count);
    if (more <= kRefusedMost) {
      refused_before_[one.policy.text()] = before;
      continue;
    }
    const std::string from(from_of(policy_text(host_.config.policies, one.policy.name)));
    if (!from.empty())
      eject_one(
          one.policy, from,
          {PluginExit::refused, fmt::format("{} of its proposals were refused", more), one.last},
          now);
  }
}

void Plugins::look_for_held_back(Instant now) {
  for (const engine::Engine::Held& one : host_.engine.held_back()) {
    if (now - one.since <= kHeldBackMost) continue;
    const std::string from(from_of(policy_text(host_.config.policies, one.policy.name)));
    if (from.empty()) continue;
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - one.since).count();
    const std::string why =
        one.policy.name == "dispatch"
            ? fmt::format("a job waited and a worker was free, and it started nothing for {} ms",
                          waited)
            : fmt::format("a job waited and its next block was ready, and it chose none for {} ms",
                          waited);
    eject_one(one.policy, from, {PluginExit::held_back, why, one.shown}, now);
  }
}

void Plugins::tick(Instant now) {
  child::PolicyProcess::reap();
  if (!watches()) return;
  look(now);
  if (!any_in_force()) {
    watch_.end();
    return;
  }
  look_for_refusals(now);
  look_for_held_back(now);
  if (!watch_.is_due(now)) return;
  const auto verdict = watch_.look(host_.waits(), now);
  if (!verdict) return;
  if (!verdict->stays) return eject(verdict->from, {PluginExit::stalled, verdict->why, ""}, now);
  host_.say(fmt::format("plugin {} stays: {}", verdict->from, verdict->why));
}

std::string Plugins::instead_of(std::string_view kind, std::string_view from) const {
  if (const engine::PolicyTexts* const policies = watch_.before(from)) {
    const std::string before = policy_text(*policies, kind);
    if (from_of(before) != from) return before;
  }
  return policy_text(engine::EngineConfig().policies, kind);
}

std::vector<Plugins::Ejected> Plugins::ejected() const {
  const std::vector<std::string> texts = texts_of(host_.config.policies);
  std::vector<Ejected> there;
  for (const Ejected& one : ejected_) {
    const bool decides = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return from_of(text) == one.from;
    });
    if (decides) there.push_back(one);
  }
  return there;
}

bool Plugins::eject_one(const engine::PolicyScope& scope, std::string_view from,
                        const ExitReport& exit, Instant now) {
  if (from_of(policy_text(host_.config.policies, scope.name)) != from) return false;
  const std::string name = scope.text();
  // What it answers until the default has come is not held against it again. A share or stream of
  // that number may be another one by now.
  if (host_.engine.has_own_policy(name)) return true;
  for (const Ejected& one : ejected_) {
    if (one.scope == name && one.at == now) return true;
  }
  std::erase_if(ejected_, [&](const Ejected& one) { return one.scope == name; });
  const std::string substitute = instead_of(scope.name, from);
  if (scope.only) {
    host_.renew({fmt::format("{}={}", name, substitute)});
  } else {
    engine::PolicyTexts wanted = host_.config.policies;
    engine::set_policy(wanted, scope.name, substitute);
    host_.change(wanted);
  }
  ejected_.push_back({name, std::string(from), exit.number, exit.why, now});
  const std::string hash = hash_of(from);
  quarantine_.add({hash, exit.number, exit.why});
  host_.say({fmt::format("plugin {}: its {} is ejected (exit {}, {}): {}; from now on: {}={}; its "
                         "other policies stay, and after a restart batchflowctl policy reset {} "
                         "lets it in again",
                         from, name, static_cast<int>(exit.number), exit_text(exit.number),
                         exit.why, name, substitute, from),
             LogLevel::error});
  ExitReport known = exit;
  if (const PluginApart* const apart = plugin_apart(hash); apart != nullptr && exit.asked.empty())
    known.asked = apart::question_text(apart->process().last_question());
  write_exit_file(state_, hash, known, now, events_, host_.engine);
  return true;
}

// Such an instance has ended its use by itself. What it decided last stays.
void Plugins::eject_from_jobs(std::string_view from, const ExitReport& exit, Instant now) {
  const std::string hash = hash_of(from);
  if (!brings_for_jobs(from) || quarantine_.find(hash)) return;
  const bool quarantined = is_quarantined(exit.number);
  if (quarantined) quarantine_.add({hash, exit.number, exit.why});
  host_.say(
      {fmt::format(
           "plugin {} (exit {}, {}): {}; jobs that have its policies go on with the weights "
           "or exemplars that they have{}",
           from, static_cast<int>(exit.number), exit_text(exit.number), exit.why,
           quarantined ? fmt::format("; batchflowctl policy reset {} lets it in again", from) : ""),
       LogLevel::error});
  write_exit_file(state_, hash, exit, now, events_, host_.engine);
}

void Plugins::eject(std::string_view from, const ExitReport& exit, Instant now) {
  const std::string hash = hash_of(from);
  engine::PolicyTexts wanted = host_.config.policies;
  std::vector<std::string> instead;
  engine::visit_policies(host_.config.policies,
                         [&](std::string_view kind, const std::string& text) {
                           if (from_of(text) != from) return;
                           const std::string substitute = instead_of(kind, from);
                           instead.push_back(fmt::format("{}={}", kind, substitute));
                           engine::set_policy(wanted, kind, substitute);
                         });
  // As a shadow it decided nothing, and is gone as well.
  std::vector<std::string> left = shadows_;
  std::erase_if(left, [&](const std::string& one) { return from_of(one) == from; });
  const bool shadowed = left.size() != shadows_.size();
  if (shadowed) shadow(left);
  // Else it is not in use any more, but maybe by jobs.
  if (instead.empty() && !shadowed) return eject_from_jobs(from, exit, now);
  const bool quarantined = instead.empty() || is_quarantined(exit.number);
  if (quarantined) quarantine_.add({hash, exit.number, exit.why});
  const std::string what =
      instead.empty() ? "is no shadow any more"
                      : fmt::format("is ejected; from now on: {}", fmt::join(instead, ", "));
  host_.say(
      {fmt::format("plugin {} (exit {}, {}): {}; it {}{}", from, static_cast<int>(exit.number),
                   exit_text(exit.number), exit.why, what,
                   !quarantined
                       ? ""
                       : fmt::format("; batchflowctl policy reset {} lets it in again", from)),
       LogLevel::error});
  write_exit_file(state_, hash, exit, now, events_, host_.engine);
  if (instead.empty()) return;
  watch_.end();
  host_.change(wanted);
  if (PluginApart* const apart = plugin_apart(hash)) apart->end();
}

}  // namespace batchflow::service
