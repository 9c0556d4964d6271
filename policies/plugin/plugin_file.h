// The file of a plugin: what it says of itself, read before anything of it is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "policies/plugin/batchflow_policy.h"

namespace batchflow::plugin {

inline constexpr std::size_t kFileBytesMost = std::size_t{256} << 20;
inline constexpr std::size_t kShortHash = 12;  // digits by which policies name the plugin's file

// What the plugin's footer says.
struct Footer {
  std::string name;
  std::string version;
  std::uint32_t interface_least = 0;
  std::uint32_t interface_most = 0;
  std::uint32_t unstable = 0;
  std::string platform;
  std::vector<std::string> policies;  // `kind=name`, `preset=name`
};

// A copy of the file, which cannot be changed any more: what is hashed is what is loaded, and a
// file that is built anew while it is in use hurts nothing.
class PluginFile {
 public:
  // Throws ConfigError that begins with the path: it is no plugin, or none for this program.
  explicit PluginFile(const std::filesystem::path& path);
  PluginFile(PluginFile&& other) noexcept;
  PluginFile(const PluginFile&) = delete;
  ~PluginFile();

  const std::filesystem::path& path() const { return path_; }
  const Footer& footer() const { return footer_; }
  const std::string& hash() const { return hash_; }  // SHA-256 of its content, in hex
  std::string short_hash() const { return hash_.substr(0, kShortHash); }
  // A path of the copy, for this process and its children. No later file gets the same one: a
  // library that is loaded is known by its path.
  std::string loadable() const;
  // A descriptor of the copy for a process that is started, numbered `least` or more; -1: there is
  // none.
  int duplicate(int least) const;

 private:
  std::filesystem::path path_;
  int copy_ = -1;
  Footer footer_;
  std::string hash_;
};

// The footer in the bytes of a file. Throws ConfigError that says what is wrong with them.
Footer read_footer(std::string_view file);

}  // namespace batchflow::plugin
