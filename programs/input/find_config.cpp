#include "programs/input/find_config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/base/config_value.h"

namespace batchflow::input {

namespace {

namespace fs = std::filesystem;

// The configurations of the installed tree of this program. A build tree has the same paths, by
// links.
fs::path installed_configs() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / ".." / "share" / "batchflow" / "configs").lexically_normal();
}

// Folders that may hold `folder`, the nearest first.
std::vector<fs::path> roots(const std::string& near) {
  std::vector<fs::path> found;
  if (const char* set = std::getenv("BATCHFLOW_CONFIGS")) found.emplace_back(set);
  if (!near.empty() && near != "-") {
    const fs::path folder = fs::path(near).parent_path();
    found.push_back(folder);
    found.push_back(folder / "..");
  }
  found.push_back(installed_configs());
  return found;
}

bool is_path(const std::string& name_or_path) {
  return name_or_path == "-" || name_or_path.find('/') != std::string::npos ||
         name_or_path.ends_with(".yaml") || name_or_path.ends_with(".yml");
}

}  // namespace

std::map<std::string, std::string> list_configs(const std::string& folder,
                                                const std::string& near) {
  std::map<std::string, std::string> all;
  std::error_code error;
  for (const fs::path& root : roots(near)) {
    fs::directory_iterator entries(root / folder, error);
    const bool is_none =
        error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    if (error && !is_none)
      throw ConfigError(fmt::format("{}: {}", (root / folder).string(), error.message()));
    for (const auto& entry : entries) {
      if (entry.path().extension() == ".yaml" && entry.is_regular_file(error))
        all.emplace(entry.path().stem().string(), entry.path().string());
    }
  }
  return all;
}

std::optional<std::string> config_named(const std::string& name, const std::string& folder,
                                        const std::string& near) {
  constexpr std::string_view kInNoName("/\0", 2);
  if (name.find_first_of(kInNoName) != std::string::npos) return std::nullopt;
  std::error_code error;
  for (const fs::path& root : roots(near)) {
    for (const fs::path& where : {root / folder, root}) {
      const fs::path file = where / (name + ".yaml");
      if (fs::is_regular_file(file, error)) return file.string();
    }
  }
  return std::nullopt;
}

std::string beside(const std::string& path, const std::string& near) {
  std::error_code error;
  const fs::path there = fs::path(near).parent_path() / path;
  return !near.empty() && fs::is_regular_file(there, error) ? there.string() : path;
}

std::string find_config(const std::string& name_or_path, const std::string& folder,
                        const std::string& near) {
  if (is_path(name_or_path)) return beside(name_or_path, near);
  if (const std::optional<std::string> file = config_named(name_or_path, folder, near))
    return *file;
  std::vector<std::string> names;
  for (const auto& [name, file] : list_configs(folder, near)) names.push_back(name);
  throw ConfigError(fmt::format("no '{}' among the {}; {}, or the path of a file",
                                name_or_path.substr(0, 100), folder,
                                what_to_write(name_or_path, names, folder)));
}

std::string what_to_write(const std::string& name_or_path, const std::vector<std::string>& names,
                          const std::string& folder) {
  if (names.empty())
    return fmt::format(
        "none are in {}: install BatchFlow whole, name by BATCHFLOW_CONFIGS the "
        "folder that has {}/",
        installed_configs().string(), folder);
  const std::string nearest = nearest_name(name_or_path, {names.begin(), names.end()});
  if (names.size() == 1) return fmt::format("write '{}'", names[0]);
  if (nearest.empty()) return fmt::format("write one of {}", fmt::join(names, ", "));
  return fmt::format("write '{}', or another of {}", nearest, fmt::join(names, ", "));
}

}  // namespace batchflow::input
