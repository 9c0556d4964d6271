#include "programs/input/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace batchflow::input {

namespace {

// Builds the tree from yaml-cpp's events. Limits are checked as events come, so that neither depth
// nor aliases can exceed them first.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view name, const YamlLimits& limits)
      : file_(std::make_shared<const std::string>(name)), limits_(limits) {
    root_.source = {file_, 0};
  }

  config::ConfigNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(mark, anchor, config::ConfigNode::Kind::empty);
    end();
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      refuse(mark, "an alias inside what it names", "write out what is meant");
    }
    count(mark, found->second.nodes);
    if (open_.size() + found->second.depth > limits_.depth) too_deep(mark);
    attach(found->second.node, mark, found->second.depth);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (expects_key()) return take_key(mark, value, tag != "!");
    begin(mark, anchor, config::ConfigNode::Kind::scalar);
    open_.back().node.scalar = value;
    end();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    begin(mark, anchor, config::ConfigNode::Kind::list);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    begin(mark, anchor, config::ConfigNode::Kind::map);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Key {
    std::string text;
    bool merge = false;
  };
  struct Open {
    config::ConfigNode node;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    std::size_t first_node = 0;             // how many nodes there were before it
    std::size_t depth = 1;                  // of the subtree, itself included
    std::map<std::string, int> keys;        // of a map: its keys, with their lines
    std::optional<Key> key;                 // of a map: read, its value not yet
    std::vector<config::ConfigNode> merge;  // of a map: what `<<` named
  };
  struct Anchored {
    config::ConfigNode node;
    std::size_t nodes;
    std::size_t depth;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& wrong,
                           const std::string& remedy) const {
    throw ConfigError(source_line_of(mark).text() + ": " + wrong + "; " + remedy);
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) const {
    refuse(mark, "nested more than " + std::to_string(limits_.depth) + " deep",
           "flatten the configuration");
  }
  config::SourceLine source_line_of(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, "a tag (" + tag.substr(0, 40) + ")", "write the plain value");
    }
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == config::ConfigNode::Kind::map &&
           !open_.back().key;
  }

  void take_key(const YAML::Mark& mark, const std::string& text, bool plain) {
    count(mark, 1);
    Open& map = open_.back();
    const bool merge = plain && text == "<<";
    const auto [first, is_new] = map.keys.emplace(text, mark.line + 1);
    if (!is_new) {
      refuse(mark, "key '" + text.substr(0, 60) + "' is here twice",
             "keep one (the first is on line " + std::to_string(first->second) + ")");
    }
    map.key = Key{text, merge};
  }

  void count(const YAML::Mark& mark, std::size_t more) {
    nodes_ += more;
    if (nodes_ > limits_.nodes) {
      refuse(mark, "more than " + std::to_string(limits_.nodes) + " values, aliases included",
             "split the configuration");
    }
  }

  void begin(const YAML::Mark& mark, YAML::anchor_t anchor, config::ConfigNode::Kind kind) {
    if (expects_key()) refuse(mark, "a key that is not a plain text", "write `key: value`");
    if (open_.size() >= limits_.depth) too_deep(mark);
    Open open;
    open.first_node = nodes_;
    open.node.source = source_line_of(mark);
    open.node.kind = kind;
    open.mark = mark;
    open.anchor = anchor;
    count(mark, 1);
    open_.push_back(std::move(open));
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (const config::ConfigNode& from : done.merge) merge_into(done, from);
    if (done.anchor) {
      const std::size_t nodes = nodes_ - done.first_node;
      count(done.mark, nodes);  // for the copy that aliases are made from
      anchored_[done.anchor] = {done.node, nodes, done.depth};
    }
    attach(std::move(done.node), done.mark, done.depth);
  }

  // Attaches a finished node to the list or map that is open; without one, it is the root.
  void attach(config::ConfigNode node, const YAML::Mark& mark, std::size_t depth) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    if (expects_key()) refuse(mark, "a key that is not a plain text", "write `key: value`");
    Open& parent = open_.back();
    parent.depth = std::max(parent.depth, depth + 1);
    if (parent.node.kind == config::ConfigNode::Kind::list) {
      parent.node.list.push_back(std::move(node));
    } else if (parent.key->merge) {
      add_merge(parent, std::move(node), mark);
      parent.key.reset();
    } else {
      parent.node.map.push_back({std::move(parent.key->text), std::move(node)});
      parent.key.reset();
    }
  }

  // `<<` names a map, or a list of maps; an earlier map wins.
  void add_merge(Open& parent, config::ConfigNode node, const YAML::Mark& mark) const {
    std::vector<config::ConfigNode> sources;
    if (node.kind == config::ConfigNode::Kind::list) {
      sources = std::move(node.list);
    } else {
      sources.push_back(std::move(node));
    }
    for (config::ConfigNode& source : sources) {
      if (source.kind != config::ConfigNode::Kind::map) {
        refuse(mark, "`<<` of something that is not a map", "write `<<: *name` of a map");
      }
      parent.merge.push_back(std::move(source));
    }
  }

  static void merge_into(Open& map, const config::ConfigNode& from) {
    for (const auto& [key, value] : from.map) {
      if (map.keys.emplace(key, value.source.line).second) map.node.map.push_back({key, value});
    }
  }

  std::shared_ptr<const std::string> file_;
  const YamlLimits limits_;
  std::size_t nodes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchored_;
  config::ConfigNode root_;
};

std::string read_all(std::istream& stream, const std::string& name, std::size_t bytes_max) {
  std::string text(bytes_max + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw ConfigError(name + ": cannot read: " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

}  // namespace

config::ConfigNode parse_yaml(std::string_view text, std::string_view name,
                              const YamlLimits& limits) {
  const std::string file(name);
  if (text.size() > limits.bytes) {
    throw ConfigError(file + ": larger than " + std::to_string(limits.bytes) +
                      " bytes; split the configuration");
  }
  // yaml-cpp lets a quote run to the end of the text unclosed, but not across an end of document.
  std::string closed(text);
  closed += closed.ends_with('\n') ? "...\n" : "\n...\n";
  std::istringstream stream(closed);
  try {
    YAML::Parser parser(stream);
    TreeBuilder builder(name, limits);
    if (!parser.HandleNextDocument(builder)) return TreeBuilder(name, limits).take();
    config::ConfigNode root = builder.take();
    if (parser) {
      TreeBuilder second(name, limits);
      if (parser.HandleNextDocument(second)) {
        throw ConfigError(file + ": a second document; write one configuration a file");
      }
    }
    return root;
  } catch (const YAML::Exception& error) {
    const config::SourceLine source_line{std::make_shared<const std::string>(file),
                                         error.mark.is_null() ? 0 : error.mark.line + 1};
    throw ConfigError(source_line.text() + ": not valid YAML: " + error.msg +
                      "; check indentation and quotes near this line");
  }
}

namespace {

std::string read_file(const std::string& path, const YamlLimits& limits) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int why = errno;
    throw ConfigError(path + ": cannot read: " + std::strerror(why) +
                      (why == ENOENT ? "; name a configuration file that exists" : ""));
  }
  return read_all(file, path, limits.bytes);
}

}  // namespace

config::ConfigNode read_yaml_file(const std::string& path, const YamlLimits& limits) {
  if (path == "-")
    return parse_yaml(read_all(std::cin, "standard input", limits.bytes), "standard input", limits);
  return parse_yaml(read_file(path, limits), path, limits);
}

std::string read_regular_file(const std::string& path) {
  std::error_code ignored;
  const bool is_other =
      std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  if (is_other || path == "-")
    throw ConfigError(path +
                      ": it is no regular file, and might be waited for; write it to a file");
  return read_file(path, {});
}

config::ConfigNode read_regular_yaml_file(const std::string& path) {
  return parse_yaml(read_regular_file(path), path);
}

void apply_override(config::ConfigNode& root, std::string_view assignment) {
  const std::string name = "--set " + std::string(assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    throw ConfigError(name + ": not an assignment; write --set path.to.key=value");
  }
  config::ConfigNode value = parse_yaml(assignment.substr(equals + 1), name);
  value.source = {std::make_shared<const std::string>(name), 0};
  root.set(assignment.substr(0, equals), std::move(value));
}

}  // namespace batchflow::input
