// A configuration as programs see it: a tree of nodes that know where they were written, and the
// sections by which a reader takes it apart and checks it.
//
// programs/input turns YAML into this tree. A reader calls read_config with a function that asks a
// ConfigSection for its keys. Asking for a key declares it, so a key that was not asked for is an
// error that names the nearest one that exists. Every error is a ConfigError of the form
//
//   file:line: key 'cache.size': what is wrong; what to write
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/types.h"

namespace batchflow::config {

// Where a node was written. Line 0: not in a file, but in an argument of the command line.
struct SourceLine {
  std::shared_ptr<const std::string> file;
  int line = 0;
  std::string text() const;  // `file:line`
};

struct ConfigEntry;

struct ConfigNode {
  enum class Kind : std::uint8_t { empty, scalar, list, map };

  SourceLine source;
  Kind kind = Kind::empty;
  std::string scalar;
  std::vector<ConfigNode> list;
  std::vector<ConfigEntry> map;  // in the order written, keys unique

  const ConfigNode* find(std::string_view key) const;
  ConfigNode* find(std::string_view key);
  // Puts `value` at `path`, for example `cache.size` or `jobs.0.batch` (a number selects from a
  // list). It adds the maps that are missing. Throws ConfigError when the path leads through a
  // scalar or beyond the end of a list.
  void set(std::string_view path, ConfigNode value);
};

struct ConfigEntry {
  std::string key;
  ConfigNode value;
};

// As YAML writes it on one line, without quotes: `{cost: 1ms, steps: [a, b]}`.
std::string text_of(const ConfigNode& node);

// One map that is being read. It exists only inside read_config, which checks it at the end.
class ConfigSection {
 public:
  using Reader = std::function<void(ConfigSection&)>;

  ConfigSection(const ConfigSection&) = delete;
  ConfigSection& operator=(const ConfigSection&) = delete;

  const SourceLine& source() const { return node_.source; }
  bool has(std::string_view key);  // declares it, too

  // Each returns `fallback` when the key is absent.
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t least = 0,
                       std::int64_t greatest = std::numeric_limits<std::int64_t>::max());
  std::uint64_t seed(std::string_view key, std::uint64_t fallback);
  double number(std::string_view key, double fallback, double least = 0,
                double greatest = std::numeric_limits<double>::max());
  Ratio ratio(std::string_view key, Ratio fallback);  // at most the whole
  bool flag(std::string_view key, bool fallback);
  Bytes bytes(std::string_view key, Bytes fallback, Bytes least = 0);
  Size size(std::string_view key, Size fallback);
  Duration duration(std::string_view key, Duration fallback, Duration least = Duration(0),
                    Duration greatest = Duration::max());
  std::string text(std::string_view key, std::string_view fallback);
  // The same, but an empty text is refused: an empty path, say, would name nothing.
  std::string filled_text(std::string_view key, std::string_view fallback, std::string_view remedy);
  std::vector<std::string> texts(std::string_view key);  // a list, or one scalar

  // One of `names`; answers its index.
  std::size_t one_of(std::string_view key, const std::vector<std::string_view>& names,
                     std::size_t fallback);
  template <class Enum>
  Enum choice(std::string_view key, const std::vector<std::string_view>& names, Enum fallback) {
    return static_cast<Enum>(one_of(key, names, static_cast<std::size_t>(fallback)));
  }

  // `section` calls `read` with the section under `key`, if the key is there. `sections` calls it
  // with each section of the list.
  void section(std::string_view key, const Reader& read);
  void sections(std::string_view key, const Reader& read);
  // Declares these keys and refuses all others at once, before other errors of the section.
  void refuse_others(std::initializer_list<std::string_view> keys);
  // The key must be there.
  void require(std::string_view key, std::string_view what_to_write);

  // Throws an error about `key` of this section, with its position in the file if it is there.
  [[noreturn]] void refuse(std::string_view key, std::string_view wrong,
                           std::string_view remedy) const;

 private:
  friend void read_config(const ConfigNode&, const Reader&);
  ConfigSection(const ConfigNode& node, std::string path);
  static void read(const ConfigNode& node, const std::string& path, const Reader& read);

  const ConfigNode* declared(std::string_view key);
  const std::string* scalar(std::string_view key, std::string_view remedy);
  std::string path_of(std::string_view key) const;
  void refuse_unknown_keys() const;

  const ConfigNode& node_;
  const std::string path_;
  std::vector<std::string> known_;
};

// Reads a whole configuration. A key that `read` did not ask for is an error.
void read_config(const ConfigNode& root, const ConfigSection::Reader& read);

}  // namespace batchflow::config
