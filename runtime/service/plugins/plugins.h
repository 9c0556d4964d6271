// The plugins of a service: which may be loaded, which run, and when one is ejected.
//
// A plugin runs in this process if an operator's key has certified it (batchflow-sim check). What
// is not certified runs in a process of its own, if the operator says so (`uncertified`). A plugin
// is ejected when it fails, when the engine refuses what it proposes, when it lets a job wait
// though a worker is free, or when jobs wait longer than before it was installed. The default
// policies then decide at once, and its hash is quarantined. After a thrown exception, a refused
// proposal or a job that was let wait, it is known which policy it was, of which share or stream.
// Then that policy is ejected and the others stay.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/engine_config.h"
#include "policies/plugin/load.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/log/recorder.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/plugins/exit_files.h"
#include "runtime/service/plugins/hang_guard.h"
#include "runtime/service/plugins/last_events.h"
#include "runtime/service/plugins/plugin_apart.h"
#include "runtime/service/plugins/plugin_settings.h"
#include "runtime/service/plugins/quarantine.h"
#include "runtime/service/plugins/stall_watch.h"
#include "runtime/service/post.h"

namespace batchflow::service {

class Plugins {
 public:
  struct Host {
    const engine::Engine& engine;
    engine::EngineConfig& config;  // what the service says that runs
    std::function<void(const engine::PolicyTexts& wanted)> change;
    // Has the engine make these policies anew: `kind=name`.
    std::function<void(const std::vector<std::string>& policies)> renew;
    // Changes the shadows, which are shown all requests and decide nothing: `eviction=name`.
    std::function<void(const std::vector<std::string>& policies)> shadow;
    std::function<WaitTotals()> waits;
    std::function<Instant()> now;
    // Has this called on the service's thread; any thread may ask.
    Post post;
    Say say;
  };
  Plugins(const std::filesystem::path& state, PluginSettings settings, Host host);
  ~Plugins();

  struct Install {
    std::string file;
    bool uncertified = false;  // it may run without a certificate, apart
    Duration watch = std::chrono::seconds(60);
    double most_worse = 5;  // points of stall, beyond which it is taken back
    bool shadow = false;    // its eviction policies are shadows, and decide nothing
  };
  // Tries the plugin in a process of its own, loads it, and puts each of its policies in force.
  // `done` is called with what was done, or with why nothing has changed: now or later.
  using Done = std::function<void(const std::string& done, const std::string& problem)>;
  void install(Install install, Done done);
  // Lets quarantined plugins in again, by their hash or its beginning. Answers what was done.
  std::string reset(std::string_view hash);
  // From now on these are the shadows, in place of those before. Throws ConfigError.
  void shadow(const std::vector<std::string>& policies);
  const std::vector<std::string>& shadows() const { return shadows_; }
  std::vector<Quarantined> quarantined() const { return quarantine_.all(); }
  // A policy that a default has replaced, in one share or stream or everywhere.
  struct Ejected {
    std::string scope;  // `eviction.encoded[3]`, `dispatch`
    std::string from;   // the plugin
    PluginExit exit;
    std::string why;
    Instant at;
  };
  // Of plugins that still decide elsewhere.
  std::vector<Ejected> ejected() const;

  // Around a step of the engine.
  void begin_step(Instant now, std::span<const engine::Event> events) {
    if (watches()) events_.add(now, events);
    if (guard_) guard_->begin();
  }
  void end_step(Instant now) {
    if (guard_) guard_->end();
    if (watches()) look(now);
  }
  bool watches() const { return guard_ != nullptr || !plugins_apart().empty(); }
  // Before a step is recorded: what the recorder does not know yet of plugins that run apart.
  void record_new(Recorder& recorder);
  // Called now and then, though nothing happens.
  void tick(Instant now);

 private:
  struct Allowed;
  // The plugin's file, if it may run here. Throws ConfigError.
  Allowed allowed(const Install& install) const;
  std::string put_in_force(const Install& install, const Allowed& allowed);
  void look_apart(Instant now);
  void revive(PluginApart& plugin, const std::string& why);
  bool any_in_force() const;
  void watch_if_needed();
  void look(Instant now);
  // From now on the default policies decide in place of those from `from`.
  void eject(std::string_view from, const ExitReport& exit, Instant now);
  // The same for this policy alone, if it is from `from`. False: it is not.
  bool eject_one(const engine::PolicyScope& scope, std::string_view from, const ExitReport& exit,
                 Instant now);
  // Of policies that jobs asked for.
  void eject_from_jobs(std::string_view from, const ExitReport& exit, Instant now);
  void look_for_refusals(Instant now);
  void look_for_held_back(Instant now);
  // What decides in place of a plugin's policy: the policy that ran before the plugin was
  // installed. It is the default if the plugin ran from the start, or if that policy is the
  // plugin's own.
  std::string instead_of(std::string_view kind, std::string_view from) const;

  std::filesystem::path state_;
  PluginSettings settings_;
  Host host_;
  Quarantine quarantine_;
  std::unique_ptr<HangGuard> guard_;  // since the first plugin was loaded
  LastEvents events_;
  // By policy: refusals that are not held against what decides now.
  std::map<std::string, std::uint64_t> refused_before_;
  std::uint64_t refused_seen_ = 0;  // all of them
  std::vector<Ejected> ejected_;
  std::vector<std::string> shadows_;
  StallWatch watch_;
  std::thread trying_;       // a plugin that is being installed, or revived
  bool installing_ = false;  // `trying_` is not done
  const PluginApart* reviving_ = nullptr;
  pid_t loading_ = -1;        // the process that is waited for meanwhile
  std::size_t recorded_ = 0;  // of the plugins that run apart
};

}  // namespace batchflow::service
