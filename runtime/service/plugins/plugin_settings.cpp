#include "runtime/service/plugins/plugin_settings.h"

#include <exception>
#include <memory>
#include <set>
#include <utility>

#include "core/base/config_value.h"
#include "core/engine/engine_config.h"
#include "fmt/format.h"
#include "policies/plugin/certificate.h"
#include "policies/plugin/load.h"
#include "runtime/service/plugins/plugin_apart.h"
#include "runtime/service/plugins/quarantine.h"

namespace batchflow::service {
namespace {

namespace fs = std::filesystem;

// What plugins would bring that are quarantined: `kind=name`.
std::set<std::string>& left_out() {
  static std::set<std::string> all;
  return all;
}

// The plugin runs from now on, if it does not yet. Throws ConfigError.
void run_apart(const std::shared_ptr<const plugin::PluginFile>& file) {
  if (plugin_apart(file->hash()) != nullptr) return;
  try {
    plugin::try_to_load(file);
    auto process = std::make_shared<child::PolicyProcess>(*file);
    auto description = process->begin();
    add_plugin_apart(
        std::make_unique<PluginApart>(file, std::move(process), std::move(description)));
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("plugin {}: {}", file->path().string(), error.what()));
  }
}

}  // namespace

fs::path quarantine_of(const fs::path& state) {
  return state / "quarantined-plugins";
}

std::string refusal(const plugin::PluginFile& file, const Quarantined& found) {
  return fmt::format("it is quarantined: {} ({}); batchflowctl policy reset {} lets it in again",
                     exit_text(found.exit), found.why, file.short_hash());
}

Permission permission(const plugin::PluginFile& file, const PluginSettings& settings,
                      bool uncertified) {
  try {
    const plugin::Certificate certificate =
        plugin::certificate_of(file.path(), file.hash(), settings.keys);
    return {true, fmt::format("certified with key {} on {}", certificate.key, certificate.made_at)};
  } catch (const ConfigError& error) {
    if (uncertified)
      return {false,
              fmt::format("NOT certified ({}): it runs in a process of its own", error.what())};
    throw ConfigError(
        fmt::format("{}; or write --uncertified to run it in a process of its own", error.what()));
  }
}

void load_configured(const PluginSettings& settings, const fs::path& state,
                     std::vector<std::string>& notes) {
  for (const fs::path& key : settings.keys) plugin::require_public_key(key);
  if (settings.files.empty()) return;
  const Quarantine quarantine(quarantine_of(state));
  for (const std::string& name : settings.files) {
    const fs::path file = plugin::find_file(name);
    const auto read = std::make_shared<const plugin::PluginFile>(file);
    if (const auto found = quarantine.find(read->hash())) {
      notes.push_back(
          fmt::format("plugin {} is NOT loaded, and the default policies decide in its place: {}",
                      file.string(), refusal(*read, *found)));
      const std::vector<std::string>& all = read->footer().policies;
      left_out().insert(all.begin(), all.end());
      continue;
    }
    const Permission permitted = permission(*read, settings, settings.uncertified);
    if (permitted.certified) {
      plugin::load(file);
    } else {
      run_apart(read);
    }
    for (const std::string& one : read->footer().policies) left_out().erase(one);
    notes.push_back(fmt::format("plugin {} {} ({}): {}", read->footer().name,
                                read->footer().version, read->short_hash(), permitted.note));
  }
}

std::string unless_quarantined(std::string_view kind, const std::string& text) {
  const std::string_view plain = kind.substr(0, kind.find('.'));
  const std::string name = text.substr(0, text.find_first_of("@:"));
  if (left_out().count(fmt::format("{}={}", plain, name)) == 0) return text;
  const engine::EngineConfig usual;
  if (kind == "preset") return usual.preset;
  std::string found = text;
  const engine::PolicyName named = engine::policy_name(kind);
  engine::visit_policies(usual.policies, [&](std::string_view one, const std::string& policy) {
    const engine::PolicyName policy_named = engine::policy_name(one);
    const bool same =
        policy_named.kind == named.kind &&
        (policy_named.evictions.empty() || policy_named.evictions[0] == named.evictions[0]);
    if (same) found = policy;
  });
  return found;
}

}  // namespace batchflow::service
