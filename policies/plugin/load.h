// Loads plugins: their policies and presets are then in the list of policies, as those that are
// built in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/preset.h"
#include "policies/plugin/hosted.h"
#include "policies/plugin/plugin_file.h"

namespace batchflow::plugin {

// A plugin that is loaded, for as long as the program runs.
class Plugin {
 public:
  // Loads the plugin into this process. Nothing is added to any list. Throws ConfigError: the
  // plugin contradicts its footer or the interface.
  explicit Plugin(std::shared_ptr<const PluginFile> file);

  const PluginFile& file() const { return *file_; }
  const char* hash_text() const { return file_->hash().c_str(); }  // for signal handlers
  std::vector<const engine::PolicyEntry*> policies() const;
  std::vector<const engine::Preset*> presets() const;

 private:
  struct HostedPreset;

  std::shared_ptr<const PluginFile> file_;
  std::uintptr_t begin_ = 0, end_ = 0;  // of its code
  friend const Plugin* holding(const void* address);
  std::vector<std::unique_ptr<HostedPolicy>> policies_;
  std::vector<std::shared_ptr<HostedPreset>> presets_;
};

// Loads the plugin in a child of this process and makes each of its policies there. Throws
// ConfigError that says what it did: it crashed, hung, threw, started threads, or changed signal
// handlers, the locale or the rounding of numbers.
void try_to_load(const std::shared_ptr<const PluginFile>& file);

// Checks that what a plugin brings fits to what there is. Throws ConfigError.
void check_fit(std::span<const engine::PolicyEntry* const> policies,
               std::span<const engine::Preset* const> presets);

// Loads a plugin, after it was tried, and adds what it brings to policies::policy_list() and
// engine::presets(). A file with the content of one that is loaded changes nothing. Throws
// ConfigError; then nothing has changed.
const Plugin& load(const std::filesystem::path& path);
// The same with a file that try_to_load has found to be good.
const Plugin& load_tried(const std::shared_ptr<const PluginFile>& file);
// The same with tables that are no file's. Throws ConfigError; `plugin` may be null.
void load_tables(const std::string& from, const bf_policy_plugin* plugin);
// What was loaded, in that order.
std::vector<const Plugin*> loaded();

// The plugin that has this address in its code; null: none of those that this process has loaded. A
// signal handler may ask.
const Plugin* holding(const void* address);

// The file that is meant: a path as it stands if it has a slash or names a file; else `NAME.so` or
// `libNAME.so` in a folder of BATCHFLOW_PLUGIN_PATH. Throws ConfigError naming what there is.
std::filesystem::path find_file(const std::string& name);
// All files of plugins in BATCHFLOW_PLUGIN_PATH, by name. What is no plugin is passed over.
std::vector<PluginFile> found_files();

}  // namespace batchflow::plugin
