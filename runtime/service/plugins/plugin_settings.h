// What is configured of plugins, and how they are loaded before anything names their policies.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/policy_texts.h"

namespace batchflow::plugin {
class PluginFile;
}

namespace batchflow::service {

struct Quarantined;

struct PluginSettings {
  std::vector<std::string> files;           // as plugin::find_file takes them
  std::vector<std::filesystem::path> keys;  // public, in PEM: what is signed with one may run
  bool uncertified = false;                 // so may what is not signed
};

std::filesystem::path quarantine_of(const std::filesystem::path& state);
// Why a quarantined plugin is not let in.
std::string refusal(const plugin::PluginFile& file, const Quarantined& found);

struct Permission {
  bool certified;  // it runs in this process; otherwise in one of its own
  std::string note;
};
// Whether the plugin may run, and where. Throws ConfigError.
Permission permission(const plugin::PluginFile& file, const PluginSettings& settings,
                      bool uncertified);

// Loads the configured plugins. A plugin that is quarantined in the state folder is not loaded, and
// the default policies take the place of its own. `notes`: what people should know. Throws
// ConfigError.
void load_configured(const PluginSettings& settings, const std::filesystem::path& state,
                     std::vector<std::string>& notes);

// `text`, or if that is a policy (or preset) of a plugin that is quarantined, the default in its
// place. `kind`: as policies are named, or `preset`.
std::string unless_quarantined(std::string_view kind, const std::string& text);

}  // namespace batchflow::service
