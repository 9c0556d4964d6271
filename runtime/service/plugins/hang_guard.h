// Watches that plugins which run in this process come back, and do not crash it.
//
// Another thread looks at the engine's thread every 50 ms. If a step has used 100 ms of the
// processor, or has lasted for a second, the thread is asked where it is: if its stack has a frame
// of a plugin, the plugin is at fault. A process that was stopped, storage that stalls, and a
// thread that gets no processor are not held against it. After such a fault the process cannot go
// on: the plugin is quarantined, and the program begins anew from its promise log, by exec. The
// same happens when a plugin crashes. What it was asked and the last events are left in files
// (leave_files).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <thread>

#include "core/engine/engine.h"
#include "runtime/service/plugins/last_events.h"

namespace batchflow::service {

class HangGuard {
 public:
  // Watches the calling thread. `quarantine`: the file's descriptor; `state`: where files of exits
  // go. There is one guard at a time, and all arguments outlive it.
  HangGuard(int quarantine, const std::filesystem::path& state, const engine::Engine& engine,
            const LastEvents& events);
  HangGuard(const HangGuard&) = delete;
  ~HangGuard();

  // Around what may call plugins.
  void begin() { step_.store(++number_, std::memory_order_relaxed); }
  void end() { step_.store(0, std::memory_order_relaxed); }

 private:
  void watch();

  std::atomic<std::uint64_t> step_{0};  // that is under way
  std::uint64_t number_ = 0;
  std::atomic<bool> ending_{false};  // the thread is to end
  std::thread watcher_;
};

// Remembers what exec begins with. main() calls it, once.
void remember_command_line(char** arguments);

}  // namespace batchflow::service
