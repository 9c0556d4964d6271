#include "runtime/service/plugins/quarantine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/output.h"

namespace batchflow::service {

std::string_view exit_text(PluginExit exit) {
  switch (exit) {
    case PluginExit::failed:
      return "it failed";
    case PluginExit::refused:
      return "its proposals were refused";
    case PluginExit::held_back:
      return "it started nothing";
    case PluginExit::hung:
      return "it did not come back";
    case PluginExit::crashed:
      return "it crashed";
    case PluginExit::stalled:
      return "jobs waited longer";
    case PluginExit::lost:
      return "its process could not run";
  }
  return "it ended";
}

Quarantine::Quarantine(const std::filesystem::path& file) : path_(file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  file_ = protocol::Descriptor(open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file_) {
    throw ConfigError(fmt::format("{}: cannot be written: {}", file.string(),
                                  std::generic_category().message(errno)));
  }
}

std::vector<Quarantined> Quarantine::all() const {
  std::vector<Quarantined> found;
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(' ');
    const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
    if (second == std::string::npos) continue;  // cut off by a crash
    const std::string number = line.substr(first + 1, second - first - 1);
    const int exit = number.size() == 1 ? number[0] - '0' : 0;
    if (exit < 1 || exit > static_cast<int>(PluginExit::lost)) continue;
    found.push_back(
        {line.substr(0, first), static_cast<PluginExit>(exit), line.substr(second + 1)});
  }
  return found;
}

std::optional<Quarantined> Quarantine::find(std::string_view hash) const {
  for (const Quarantined& one : all()) {
    if (one.hash.starts_with(hash) || hash.starts_with(one.hash)) return one;
  }
  return std::nullopt;
}

void Quarantine::add(const Quarantined& one) {
  if (find(one.hash)) return;
  std::string why = one.why.substr(0, 1000);
  std::replace(why.begin(), why.end(), '\n', ' ');
  const std::string line = fmt::format("{} {} {}\n", one.hash, static_cast<int>(one.exit), why);
  // Without a line it may come back after a restart, and is ejected then.
  if (write(file_.get(), line.data(), line.size()) < 0) return;
  fdatasync(file_.get());
}

std::size_t Quarantine::let_in(std::string_view hash) {
  std::string kept;
  std::size_t let = 0;
  for (const Quarantined& one : all()) {
    if (one.hash.starts_with(hash)) {
      ++let;
    } else {
      kept += fmt::format("{} {} {}\n", one.hash, static_cast<int>(one.exit), one.why);
    }
  }
  if (let == 0) return 0;
  output::write_file_atomically(path_.string(), kept, [] {});
  // Under the same number: a signal handler knows it.
  const protocol::Descriptor anew(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (anew) dup3(anew.get(), file_.get(), O_CLOEXEC);
  return let;
}

}  // namespace batchflow::service
