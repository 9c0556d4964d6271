// Where configurations are found by name.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "configs/reader/config_names.h"
#include "configs/reader/scenario.h"

namespace batchflow {

namespace {

namespace fs = std::filesystem;

// Of the installed tree that this program lies in. A build tree has the same places, by links.
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

bool is_path(const std::string& place) {
  return place == "-" || place.find('/') != std::string::npos || place.ends_with(".yaml") ||
         place.ends_with(".yml");
}

}  // namespace

std::map<std::string, std::string> list_configs(const std::string& folder,
                                                const std::string& near) {
  std::map<std::string, std::string> all;
  std::error_code error;
  for (const fs::path& root : roots(near)) {
    for (const auto& entry : fs::directory_iterator(root / folder, error)) {
      if (entry.path().extension() == ".yaml" && entry.is_regular_file(error))
        all.emplace(entry.path().stem().string(), entry.path().string());
    }
  }
  return all;
}

std::string find_config(const std::string& place, const std::string& folder,
                        const std::string& near) {
  std::error_code error;
  if (is_path(place)) {
    const fs::path beside = fs::path(near).parent_path() / place;
    const bool is_beside = !near.empty() && fs::is_regular_file(beside, error);
    return is_beside ? beside.string() : place;
  }
  for (const fs::path& root : roots(near)) {
    for (const fs::path& where : {root / folder, root}) {
      const fs::path file = where / (place + ".yaml");
      if (fs::is_regular_file(file, error)) return file.string();
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, file] : list_configs(folder, near)) names.push_back(name);
  throw ConfigError(fmt::format("no '{}' among the {}; {}, or the path of a file",
                                place.substr(0, 100), folder, what_to_write(place, names, folder)));
}

std::string what_to_write(const std::string& place, const std::vector<std::string>& names,
                          const std::string& folder) {
  if (names.empty())
    return fmt::format(
        "none are in {}: install BatchFlow whole, name by BATCHFLOW_CONFIGS the "
        "folder that has {}/",
        installed_configs().string(), folder);
  const std::string nearest = nearest_name(place, {names.begin(), names.end()});
  if (names.size() == 1) return fmt::format("write '{}'", names[0]);
  if (nearest.empty()) return fmt::format("write one of {}", fmt::join(names, ", "));
  return fmt::format("write '{}', or another of {}", nearest, fmt::join(names, ", "));
}

}  // namespace batchflow
