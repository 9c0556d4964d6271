// Plugins that did what no plugin may: they are not loaded again until a person lets them in.
//
// One line of text for each in a file of the state folder: the hash of the plugin's file, the
// number of its exit, and why. A signal handler can add one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

// Why a plugin is used no more. The numbers stand in logs and files.
enum class PluginExit : std::uint8_t {
  failed = 1,     // it threw, or answered against its interface
  refused = 2,    // the engine refused what it proposed
  held_back = 3,  // a job waited, a worker was free, and it started nothing
  hung = 4,       // it did not come back
  crashed = 5,
  stalled = 6,  // jobs waited longer than before it came
  lost = 7,     // its process was stopped, or got no processor, again and again
};
// `threw or broke its interface`
std::string_view exit_text(PluginExit exit);

struct Quarantined {
  std::string hash;
  PluginExit exit;
  std::string why;
};

class Quarantine {
 public:
  // Throws ConfigError if the file cannot be written.
  explicit Quarantine(const std::filesystem::path& file);

  std::vector<Quarantined> all() const;
  // `hash`: all of it, or how it begins.
  std::optional<Quarantined> find(std::string_view hash) const;
  void add(const Quarantined& one);
  // Lets in all with a hash that begins so. Returns how many there were.
  std::size_t let_in(std::string_view hash);
  int descriptor() const { return file_.get(); }  // the same for as long as this lives

 private:
  std::filesystem::path path_;
  protocol::Descriptor file_;  // open for appending
};

}  // namespace batchflow::service
