// A plugin to begin with: what `policy new` writes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/policy_texts.h"

namespace batchflow::plugin {

// The guide's example of each kind of policy, by kind.
extern const char* const kTemplates[];

struct NewFile {
  std::filesystem::path path;
  std::string text;
};
// The files of a project that builds the plugin NAME.so and checks it, in a folder of that name.
// Throws ConfigError if the name will not do.
std::vector<NewFile> new_plugin(std::string_view name, engine::PolicyKind kind);

// Writes them below the current folder, and returns what to type next. Throws ConfigError, also if
// there is such a folder.
std::string write_new_plugin(std::string_view name, engine::PolicyKind kind);

// Where this program's headers for plugins are: what CMAKE_PREFIX_PATH has to be.
std::filesystem::path sdk_prefix();
// What to type next, with the folder beside the current one.
std::string next_commands(std::string_view name, engine::PolicyKind kind);

}  // namespace batchflow::plugin
