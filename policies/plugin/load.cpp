#include "policies/plugin/load.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "core/base/config_value.h"
#include "core/engine/engine_config.h"
#include "policies/plugin/policy_host.h"
#include "policies/registry.h"

namespace batchflow::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kPoliciesMost = 64;
constexpr const char* kEntryPoint = "batchflow_policy_plugin";

struct CodeRange {
  std::uintptr_t base;
  std::uintptr_t begin = 0, end = 0;
};

CodeRange code_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  CodeRange range{map->l_addr};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& found = *static_cast<CodeRange*>(data);
        if (object->dlpi_addr != found.base) return 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          found.begin = object->dlpi_addr + part.p_vaddr;
          found.end = found.begin + part.p_memsz;
        }
        return 1;
      },
      &range);
  return range;
}

// Of those that are loaded for good, for signal handlers: a list that only grows.
constexpr std::size_t kLoadedMost = 256;
std::atomic<const Plugin*> for_handlers[kLoadedMost];

const bf_policy_plugin& ask_for_tables(const PluginFile& file, CodeRange& code) {
  // A plugin is never unloaded: what it hands out is used until the end.
  void* const library = dlopen(file.loadable().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw ConfigError(fmt::format("it cannot be loaded: {}", why != nullptr ? why : "no reason"));
  }
  code = code_of(library);
  void* const symbol = dlsym(library, kEntryPoint);
  if (symbol == nullptr) throw ConfigError(fmt::format("it has no function {}", kEntryPoint));
  const auto entry = reinterpret_cast<const bf_policy_plugin* (*)(const bf_policy_host*)>(symbol);
  const bf_policy_plugin* given = nullptr;
  try {
    given = entry(&policy_host());
  } catch (...) {
    throw ConfigError("an exception left it while it was loaded");
  }
  if (given == nullptr) throw ConfigError("it says that it cannot be used with this program");
  const Footer& footer = file.footer();
  if (given->bytes < offsetof(bf_policy_plugin, presets) + sizeof(given->presets))
    throw ConfigError("its table is shorter than that of any version");
  if (given->version < std::max<std::uint32_t>(footer.interface_least, BF_POLICY_VERSION_LEAST) ||
      given->version > std::min<std::uint32_t>(footer.interface_most, BF_POLICY_VERSION)) {
    throw ConfigError(fmt::format(
        "it answers with version {} of the interface, which was not offered", given->version));
  }
  if (given->policy_count > kPoliciesMost || given->preset_count > kPoliciesMost)
    throw ConfigError(fmt::format("it brings more than {} policies or presets", kPoliciesMost));
  return *given;
}

std::string checked(const char* text, const char* what) {
  if (text == nullptr || strnlen(text, 4001) > 4000)
    throw ConfigError(fmt::format("a preset has no {}, or one that is too long", what));
  return text;
}

std::vector<std::unique_ptr<Plugin>>& all_loaded() {
  static std::vector<std::unique_ptr<Plugin>> all;
  return all;
}

std::vector<fs::path> search_path() {
  std::vector<fs::path> folders;
  const char* const path = std::getenv("BATCHFLOW_PLUGIN_PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

}  // namespace

struct Plugin::HostedPreset {
  explicit HostedPreset(const bf_policy_preset* given) {
    bf_policy_preset made{};
    if (given == nullptr || given->bytes < sizeof(given->bytes))
      throw ConfigError("it has no table of a preset");
    std::memcpy(&made, given, std::min<std::size_t>(given->bytes, sizeof(made)));
    const auto keep = [&](const char* text, const char* what) {
      return std::string_view(
          *texts.emplace_back(std::make_unique<std::string>(checked(text, what))));
    };
    preset.name = keep(made.name, "name");
    preset.help = keep(made.help, "help");
    preset.allocation = keep(made.allocation, "allocation");
    for (std::size_t form = 0; form < kForms; ++form)
      preset.eviction[form] = keep(made.eviction[form], "eviction");
    preset.selection = keep(made.selection, "selection");
    preset.dispatch = keep(made.dispatch, "dispatch");
    preset.scaling = keep(made.scaling, "scaling");
    preset.share_streams = (made.flags & BF_SHARE_STREAMS) != 0;
    preset.share_nodes = (made.flags & BF_SHARE_NODES) != 0;
    preset.workers_held_during_reads = (made.flags & BF_WORKERS_HELD_DURING_READS) != 0;
    preset.helper_nodes = std::min(made.helper_nodes, engine::kHelperNodesMost);
    preset.workers_per_rank = std::min(made.workers_per_rank, engine::kWorkersPerRankMost);
    preset.late_after_p99 = std::min(made.late_after_p99, engine::kLateAfterMost);
  }
  std::vector<std::unique_ptr<std::string>> texts;
  engine::Preset preset{};
};

Plugin::Plugin(std::shared_ptr<const PluginFile> file) : file_(std::move(file)) {
  CodeRange code{};
  const bf_policy_plugin& given = ask_for_tables(*file_, code);
  begin_ = code.begin;
  end_ = code.end;
  std::multiset<std::string> brought;
  for (std::uint32_t i = 0; i < given.policy_count; ++i) {
    if (given.policies == nullptr || given.policies[i] == nullptr)
      throw ConfigError("it has no table of a policy");
    policies_.push_back(
        std::make_unique<HostedPolicy>(*given.policies[i], given.unstable, file_->short_hash()));
    const engine::PolicyEntry& entry = policies_.back()->entry();
    brought.insert(fmt::format("{}={}", engine::policy_kind_name(entry.kind()), entry.name));
  }
  for (std::uint32_t i = 0; i < given.preset_count; ++i) {
    presets_.push_back(
        std::make_shared<HostedPreset>(given.presets == nullptr ? nullptr : given.presets[i]));
    brought.insert(fmt::format("preset={}", presets_.back()->preset.name));
  }
  const std::multiset<std::string> promised(file_->footer().policies.begin(),
                                            file_->footer().policies.end());
  if (brought != promised) {
    throw ConfigError(fmt::format("its footer promises {}, and it brings {}",
                                  fmt::join(promised, ", "), fmt::join(brought, ", ")));
  }
  if (std::set<std::string>(brought.begin(), brought.end()).size() != brought.size())
    throw ConfigError(fmt::format("it brings one name twice: {}", fmt::join(brought, ", ")));
}

void check_fit(std::span<const engine::PolicyEntry* const> policies,
               std::span<const engine::Preset* const> presets) {
  engine::PolicyList list = policies::policy_list();
  for (const engine::PolicyEntry* entry : policies) list.add(*entry);
  for (const engine::Preset* preset : presets) {
    engine::refuse_taken(*preset);
    try {
      engine::EngineConfig config;
      preset->apply(config);
      engine::visit_policies(config.policies, [&](std::string_view kind, const std::string& text) {
        list.choose(engine::policy_name(kind).kind, text);
      });
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("its preset '{}': {}", preset->name, error.what()));
    }
  }
}

std::vector<const engine::PolicyEntry*> Plugin::policies() const {
  std::vector<const engine::PolicyEntry*> entries;
  for (const auto& policy : policies_) entries.push_back(&policy->entry());
  return entries;
}

std::vector<const engine::Preset*> Plugin::presets() const {
  std::vector<const engine::Preset*> presets;
  for (const auto& one : presets_) presets.push_back(&one->preset);
  return presets;
}

namespace {

const Plugin* loaded_with(const std::string& hash) {
  for (const auto& one : all_loaded()) {
    if (one->file().hash() == hash) return one.get();
  }
  return nullptr;
}

[[noreturn]] void throw_of(const PluginFile& file, const ConfigError& error) {
  throw ConfigError(fmt::format("plugin {}: {}", file.path().string(), error.what()));
}

}  // namespace

const Plugin& load(const fs::path& path) {
  const auto file = std::make_shared<const PluginFile>(path);
  if (const Plugin* const one = loaded_with(file->hash())) return *one;
  try {
    try_to_load(file);
  } catch (const ConfigError& error) {
    throw_of(*file, error);
  }
  return load_tried(file);
}

const Plugin& load_tried(const std::shared_ptr<const PluginFile>& file) {
  if (const Plugin* const one = loaded_with(file->hash())) return *one;
  try {
    auto plugin = std::make_unique<Plugin>(file);
    check_fit(plugin->policies(), plugin->presets());
    const std::size_t index = all_loaded().size();
    if (index == kLoadedMost) throw ConfigError("this process has loaded too many plugins");
    for (const engine::PolicyEntry* entry : plugin->policies()) policies::add_policy(*entry);
    for (const engine::Preset* preset : plugin->presets()) engine::add_preset(*preset);
    const Plugin& loaded = *all_loaded().emplace_back(std::move(plugin));
    for_handlers[index].store(&loaded);
    return loaded;
  } catch (const ConfigError& error) {
    throw_of(*file, error);
  }
}

void load_tables(const std::string& from, const bf_policy_plugin* plugin) {
  if (plugin == nullptr) throw ConfigError("there is no plugin");
  static std::vector<std::unique_ptr<HostedPolicy>> all;
  for (std::uint32_t i = 0; i < plugin->policy_count; ++i) {
    all.push_back(std::make_unique<HostedPolicy>(*plugin->policies[i], plugin->unstable, from));
    policies::add_policy(all.back()->entry());
  }
}

const Plugin* holding(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const auto& one : for_handlers) {
    const Plugin* const plugin = one.load();
    if (plugin == nullptr) break;
    if (at >= plugin->begin_ && at < plugin->end_) return plugin;
  }
  return nullptr;
}

std::vector<const Plugin*> loaded() {
  std::vector<const Plugin*> all;
  for (const auto& one : all_loaded()) all.push_back(one.get());
  return all;
}

fs::path find_file(const std::string& name) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos || fs::is_regular_file(name, ignored)) return name;
  const std::vector<fs::path> folders = search_path();
  for (const fs::path& folder : folders) {
    for (const std::string& file : {name + ".so", "lib" + name + ".so"}) {
      if (fs::is_regular_file(folder / file, ignored)) return folder / file;
    }
  }
  std::vector<std::string> there;
  for (const PluginFile& one : found_files()) there.push_back(one.path().string());
  throw ConfigError(fmt::format(
      "plugin {}: there is no such file; write its path, or put it into a folder of "
      "BATCHFLOW_PLUGIN_PATH{}",
      name, there.empty() ? "" : fmt::format(", which has {}", fmt::join(there, ", "))));
}

std::vector<PluginFile> found_files() {
  std::map<fs::path, PluginFile> found;
  for (const fs::path& folder : search_path()) {
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      if (at->path().extension() != ".so") continue;
      try {
        found.emplace(at->path(), PluginFile(at->path()));
      } catch (const ConfigError&) {
        // a library of something else
      }
    }
  }
  std::vector<PluginFile> files;
  for (auto& [path, file] : found) files.push_back(std::move(file));
  return files;
}

}  // namespace batchflow::plugin
