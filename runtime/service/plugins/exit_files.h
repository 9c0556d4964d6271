// What a plugin leaves for its author when it is used no more: `plugin-exit-HASH.txt` in the state
// folder.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/types.h"
#include "core/engine/engine.h"
#include "runtime/service/plugins/last_events.h"
#include "runtime/service/plugins/quarantine.h"

namespace batchflow::service {

struct ExitReport {
  PluginExit number;
  std::string why;
  std::string asked;  // what it was asked, if that is known
};

// Writes what happened, and what the engine was like then.
void write_exit_file(const std::filesystem::path& state, const std::string& hash,
                     const ExitReport& exit, Instant now, const LastEvents& events,
                     const engine::Engine& engine);
// Turns what a signal handler left of events (runtime/service/plugins/hang_guard.h) into text.
void finish_exit_files(const std::filesystem::path& state);

}  // namespace batchflow::service
