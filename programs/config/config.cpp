#include "programs/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace batchflow::config {

namespace {

constexpr std::string_view kind_name(ConfigNode::Kind kind) {
  constexpr std::string_view names[] = {"nothing", "a single value", "a list", "a map"};
  return names[static_cast<std::size_t>(kind)];
}

// A value as errors quote it: on one line, and not longer than a line.
std::string shown(std::string_view text) {
  std::string line(text.substr(0, 60));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text.size() > line.size() ? line + "..." : line;
}

[[noreturn]] void refuse_at(const SourceLine& source, std::string_view path, std::string_view wrong,
                            std::string_view remedy) {
  throw ConfigError(fmt::format("{}: key '{}': {}; {}", source.text(), shown(path), wrong, remedy));
}

}  // namespace

std::string SourceLine::text() const {
  const std::string_view name = file ? std::string_view(*file) : "configuration";
  return line > 0 ? fmt::format("{}:{}", name, line) : std::string(name);
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  const auto found =
      std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.key == key; });
  return found == map.end() ? nullptr : &found->value;
}

ConfigNode* ConfigNode::find(std::string_view key) {
  return const_cast<ConfigNode*>(std::as_const(*this).find(key));
}

void ConfigNode::set(std::string_view path, ConfigNode value) {
  ConfigNode* node = this;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    const std::string_view key = path.substr(from, dot - from);
    if (key.empty()) refuse_at(value.source, path, "an empty name", "write path.to.key=value");
    if (node->kind == Kind::list) {
      const auto index = parse_unsigned(key);
      if (!index || *index >= node->list.size()) {
        refuse_at(value.source, path, fmt::format("'{}' is not in this list", key),
                  fmt::format("write a number below {}", node->list.size()));
      }
      node = &node->list[*index];
    } else {
      if (node->kind == Kind::scalar) {
        refuse_at(value.source, path,
                  fmt::format("there is nothing below '{}'", path.substr(0, from ? from - 1 : 0)),
                  "it is a single value; write its path alone");
      }
      if (node->kind == Kind::empty) node->kind = Kind::map;
      ConfigNode* next = node->find(key);
      if (!next) {
        node->map.push_back({std::string(key), {}});
        next = &node->map.back().value;
        next->source = value.source;
      }
      node = next;
    }
    from = dot + 1;
  }
  *node = std::move(value);
}

// ------------------------------------------------------------------------------- sections ----

ConfigSection::ConfigSection(const ConfigNode& node, std::string path)
    : node_(node), path_(std::move(path)) {}

void ConfigSection::read(const ConfigNode& node, const std::string& path, const Reader& read) {
  if (node.kind != ConfigNode::Kind::map && node.kind != ConfigNode::Kind::empty) {
    const std::string wrong = fmt::format("expected keys, found {}", kind_name(node.kind));
    if (path.empty()) {
      throw ConfigError(fmt::format("{}: {}; write `key: value` lines", node.source.text(), wrong));
    }
    refuse_at(node.source, path, wrong, "write `key: value` lines below it");
  }
  ConfigSection section(node, path);
  read(section);
  section.refuse_unknown_keys();
}

void read_config(const ConfigNode& root, const ConfigSection::Reader& read) {
  ConfigSection::read(root, "", read);
}

std::string ConfigSection::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void ConfigSection::refuse(std::string_view key, std::string_view wrong,
                           std::string_view remedy) const {
  const ConfigNode* node = node_.find(key);
  refuse_at(node ? node->source : node_.source, path_of(key), wrong, remedy);
}

void ConfigSection::refuse_unknown_keys() const {
  for (const auto& [key, node] : node_.map) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    const std::string nearest = nearest_name(key, names);
    refuse(key, "unknown key",
           !nearest.empty() ? fmt::format("did you mean '{}'?", nearest)
           : names.empty()  ? std::string("nothing can be set here")
                            : fmt::format("write one of {}", fmt::join(names, ", ")));
  }
}

void ConfigSection::refuse_others(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) declared(key);
  refuse_unknown_keys();
}

const ConfigNode* ConfigSection::declared(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return node_.find(key);
}

bool ConfigSection::has(std::string_view key) {
  return declared(key) != nullptr;
}

void ConfigSection::require(std::string_view key, std::string_view what_to_write) {
  if (!has(key)) refuse(key, "is missing", what_to_write);
}

const std::string* ConfigSection::scalar(std::string_view key, std::string_view remedy) {
  const ConfigNode* node = declared(key);
  if (!node) return nullptr;
  if (node->kind != ConfigNode::Kind::scalar) {
    refuse(key, fmt::format("expected a single value, found {}", kind_name(node->kind)), remedy);
  }
  return &node->scalar;
}

std::int64_t ConfigSection::integer(std::string_view key, std::int64_t fallback, std::int64_t least,
                                    std::int64_t greatest) {
  const std::string remedy =
      greatest == std::numeric_limits<std::int64_t>::max()
          ? fmt::format("write a whole number, {} or more", least)
          : fmt::format("write a whole number from {} to {}", least, greatest);
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_integer(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a whole number", shown(*text)), remedy);
  if (*value < least || *value > greatest) {
    refuse(key, fmt::format("{} is out of bounds", *value), remedy);
  }
  return *value;
}

std::uint64_t ConfigSection::seed(std::string_view key, std::uint64_t fallback) {
  constexpr std::string_view remedy = "write a whole number below 2^64, or 0x and hex digits";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_unsigned(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a seed", shown(*text)), remedy);
  return *value;
}

double ConfigSection::number(std::string_view key, double fallback, double least, double greatest) {
  const std::string remedy = greatest == std::numeric_limits<double>::max()
                                 ? fmt::format("write a number, {} or more", least)
                                 : fmt::format("write a number from {} to {}", least, greatest);
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_number(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a number", shown(*text)), remedy);
  if (*value < least || *value > greatest) {
    refuse(key, fmt::format("{} is out of bounds", *value), remedy);
  }
  return *value;
}

Ratio ConfigSection::ratio(std::string_view key, Ratio fallback) {
  constexpr std::string_view remedy = "write a part of one such as 0.25 or 25%";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_ratio(*text);
  if (!value || value->parts > Ratio::kWhole) {
    refuse(key, fmt::format("'{}' is not a ratio from 0 to 1", shown(*text)), remedy);
  }
  return *value;
}

bool ConfigSection::flag(std::string_view key, bool fallback) {
  constexpr std::string_view remedy = "write true or false";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_flag(*text);
  if (!value) refuse(key, fmt::format("'{}' is neither true nor false", shown(*text)), remedy);
  return *value;
}

Bytes ConfigSection::bytes(std::string_view key, Bytes fallback, Bytes least) {
  constexpr std::string_view remedy = "write a size such as 64gb (10^9) or 64gib (2^30)";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_bytes(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a size", shown(*text)), remedy);
  if (*value < least) {
    refuse(key, fmt::format("{} bytes is too little", *value),
           fmt::format("write at least {}", least));
  }
  return *value;
}

Size ConfigSection::size(std::string_view key, Size fallback) {
  constexpr std::string_view remedy = "write a size such as 64gb (10^9), 64gib (2^30) or 10%";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_size(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a size", shown(*text)), remedy);
  return *value;
}

Duration ConfigSection::duration(std::string_view key, Duration fallback, Duration least,
                                 Duration greatest) {
  constexpr std::string_view remedy = "write a time such as 300s (units ns, us, ms, s, min, h, d)";
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto value = parse_duration(*text);
  if (!value) refuse(key, fmt::format("'{}' is not a time", shown(*text)), remedy);
  if (*value < least) {
    refuse(key, fmt::format("{} is too short", shown(*text)),
           fmt::format("write at least {}ns", least.count()));
  }
  if (*value > greatest) {
    refuse(key, fmt::format("{} is too long", shown(*text)),
           fmt::format("write at most {}s", greatest.count() / 1'000'000'000));
  }
  return *value;
}

std::string ConfigSection::text(std::string_view key, std::string_view fallback) {
  const std::string* text = scalar(key, "write it on the same line");
  return text ? *text : std::string(fallback);
}

std::string ConfigSection::filled_text(std::string_view key, std::string_view fallback,
                                       std::string_view remedy) {
  const std::string* text = scalar(key, remedy);
  if (text && text->empty()) refuse(key, "it is empty", remedy);
  return text ? *text : std::string(fallback);
}

std::vector<std::string> ConfigSection::texts(std::string_view key) {
  const ConfigNode* node = declared(key);
  if (!node) return {};
  if (node->kind == ConfigNode::Kind::scalar) return {node->scalar};
  constexpr std::string_view remedy = "write [one, two] or one value";
  if (node->kind != ConfigNode::Kind::list) {
    refuse(key, fmt::format("expected a list, found {}", kind_name(node->kind)), remedy);
  }
  std::vector<std::string> values;
  for (const ConfigNode& item : node->list) {
    if (item.kind != ConfigNode::Kind::scalar) {
      refuse_at(item.source, path_of(key), fmt::format("the list holds {}", kind_name(item.kind)),
                remedy);
    }
    values.push_back(item.scalar);
  }
  return values;
}

std::size_t ConfigSection::one_of(std::string_view key, const std::vector<std::string_view>& names,
                                  std::size_t fallback) {
  const std::string remedy = fmt::format("write one of {}", fmt::join(names, ", "));
  const std::string* text = scalar(key, remedy);
  if (!text) return fallback;
  const auto found = std::find(names.begin(), names.end(), *text);
  if (found == names.end()) refuse(key, fmt::format("unknown value '{}'", shown(*text)), remedy);
  return static_cast<std::size_t>(found - names.begin());
}

void ConfigSection::section(std::string_view key, const Reader& reader) {
  if (const ConfigNode* node = declared(key)) read(*node, path_of(key), reader);
}

void ConfigSection::sections(std::string_view key, const Reader& reader) {
  const ConfigNode* node = declared(key);
  if (!node || node->kind == ConfigNode::Kind::empty) return;
  if (node->kind != ConfigNode::Kind::list) {
    refuse(key, fmt::format("expected a list, found {}", kind_name(node->kind)),
           "begin each entry with `- `");
  }
  for (std::size_t i = 0; i < node->list.size(); ++i) {
    read(node->list[i], fmt::format("{}.{}", path_of(key), i), reader);
  }
}

std::string text_of(const ConfigNode& node) {
  std::string text;
  switch (node.kind) {
    case ConfigNode::Kind::empty:
      return "";
    case ConfigNode::Kind::scalar:
      return node.scalar;
    case ConfigNode::Kind::list:
      for (const ConfigNode& entry : node.list) {
        text += (text.empty() ? "" : ", ") + text_of(entry);
      }
      return "[" + text + "]";
    case ConfigNode::Kind::map:
      for (const ConfigEntry& entry : node.map) {
        text += (text.empty() ? "" : ", ") + entry.key + ": " + text_of(entry.value);
      }
      return "{" + text + "}";
  }
  return text;
}

}  // namespace batchflow::config
