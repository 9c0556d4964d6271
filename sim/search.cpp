#include "sim/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/config_value.h"
#include "sim/numbers.h"

namespace batchflow::sim {

// ------------------------------------------------------------------------------ conditions ----

bool Condition::is_met(double value) const {
  switch (sign) {
    case Sign::less:
      return value < limit;
    case Sign::at_most:
      return value <= limit;
    case Sign::more:
      return value > limit;
    case Sign::at_least:
      return value >= limit;
  }
  return false;
}

double Condition::distance(double value) const {
  if (is_met(value)) return 0;
  return std::abs(value - limit) / std::max(std::abs(limit), 1e-12);
}

Condition parse_condition(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string::npos || at == 0) {
    throw ConfigError(fmt::format(
        "--for '{}': not a condition; write a figure, a sign and a limit, as 'stall_fraction<2%'",
        text));
  }
  Condition condition;
  condition.text = text;
  const bool or_equal = at + 1 < text.size() && text[at + 1] == '=';
  condition.sign = text[at] == '<' ? or_equal ? Condition::Sign::at_most : Condition::Sign::less
                   : or_equal      ? Condition::Sign::at_least
                                   : Condition::Sign::more;
  const auto trimmed = [](std::string part) {
    part.erase(0, part.find_first_not_of(' '));
    return part.erase(part.find_last_not_of(' ') + 1);
  };
  try {
    condition.figure = &figure_named(trimmed(text.substr(0, at)));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--for '{}': {}", text, error.what()));
  }
  const std::string limit = trimmed(text.substr(at + (or_equal ? 2 : 1)));
  const std::string_view field = condition.figure->field;
  if (const auto number = parse_number(limit)) {
    condition.limit = *number;
  } else if (const auto ratio = parse_ratio(limit)) {
    condition.limit = static_cast<double>(ratio->parts) / static_cast<double>(Ratio::kWhole);
  } else if (const auto time = parse_duration(limit); time && field.ends_with("_s")) {
    condition.limit = std::chrono::duration<double>(*time).count();
  } else if (const auto bytes = parse_bytes(limit); bytes && field.find("bytes") != field.npos) {
    condition.limit = static_cast<double>(*bytes);
  } else {
    throw ConfigError(
        fmt::format("--for '{}': '{}' is no limit of {}; write a number, as 0.02, 2%, 10min or 3gb",
                    text, limit, field));
  }
  return condition;
}

// ---------------------------------------------------------------------------- what is varied ----

std::string SearchedSetting::text(std::uint64_t value) const {
  return range.is_bytes ? size_text(value) : count_text(value);
}

void SearchedSetting::set(config::ConfigNode& tree, std::uint64_t value) const {
  config::ConfigNode node;
  node.source = {std::make_shared<const std::string>("--least " + name), 0};
  node.kind = config::ConfigNode::Kind::scalar;
  node.scalar = fmt::format("{}", value);
  for (const std::string& path : paths) tree.set(path, node);
}

namespace {

const std::vector<config::ConfigNode>& nodes_of(const config::ConfigNode& tree) {
  const config::ConfigNode* cluster = tree.find("cluster");
  const config::ConfigNode* nodes = cluster == nullptr ? nullptr : cluster->find("nodes");
  if (nodes == nullptr || nodes->list.empty())
    throw ConfigError("search: the scenario has no cluster with nodes; write --cluster NAME");
  return nodes->list;
}

std::uint64_t value_of(const config::ConfigNode& node, const char* key, std::uint64_t fallback) {
  const config::ConfigNode* value = node.find(key);
  if (value == nullptr) return fallback;
  return parse_bytes(value->scalar).value_or(fallback);  // the reader says what is wrong
}

// What the cluster has now, of the greatest and of the least of its nodes.
struct Extent {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
};
Extent extent_of(const std::vector<config::ConfigNode>& nodes, const char* key,
                 std::uint64_t fallback) {
  Extent extent;
  for (const config::ConfigNode& node : nodes) {
    extent.least = std::min(extent.least, value_of(node, key, fallback));
    extent.most = std::max(extent.most, value_of(node, key, fallback));
  }
  return extent;
}

// With three digits.
std::uint64_t rounded(double value) {
  if (value < 1000) return static_cast<std::uint64_t>(std::llround(value));
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return static_cast<std::uint64_t>(std::llround(std::round(value / unit) * unit));
}

SearchRange read_range(const std::string& name, const std::string& text, SearchRange range) {
  const std::size_t comma = text.find(',');
  const std::string low = text.substr(0, comma);
  const std::string high = comma == std::string::npos ? "" : text.substr(comma + 1);
  const auto least = parse_bytes(low);
  const auto most = parse_bytes(high);
  if (!least || !most || *least == 0 || *least >= *most) {
    throw ConfigError(fmt::format("--between '{}': not two values of {}, the less first; write {}",
                                  text, name, range.is_bytes ? "1gb,64gb" : "1,64"));
  }
  const bool has_unit = !parse_integer(low) || !parse_integer(high);
  return {*least, *most, range.is_bytes || has_unit};
}

}  // namespace

SearchedSetting searched_setting(const std::string& name, const std::string& between,
                                 const config::ConfigNode& tree) {
  constexpr std::uint64_t kTimesMore = 4;
  SearchedSetting setting{name, {}, {}};
  const std::vector<config::ConfigNode>& nodes = nodes_of(tree);
  const auto of_each_node = [&](const char* key) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      setting.paths.push_back(fmt::format("cluster.nodes.{}.{}", i, key));
  };
  if (name == "cache") {
    of_each_node("cache");
    const Extent memory = extent_of(nodes, "memory", 1);
    setting.range = {std::max<std::uint64_t>(1, rounded(static_cast<double>(memory.least) / 256)),
                     memory.least, true};
  } else if (name == "cores" || name == "gpus") {
    of_each_node(name.c_str());
    setting.range = {
        1, kTimesMore * std::max<std::uint64_t>(1, extent_of(nodes, name.c_str(), 1).most), false};
  } else if (name == "nodes") {
    if (nodes.size() > 1) {
      throw ConfigError(
          "--least nodes: the cluster has several kinds of nodes; name the one that varies, as "
          "--least cluster.nodes.1.count --between 1,16");
    }
    setting.paths = {"cluster.nodes.0.count"};
    setting.range = {1, kTimesMore * value_of(nodes[0], "count", 1), false};
  } else if (name.find('.') == std::string::npos) {
    const std::string nearest = nearest_name(name, {"cache", "cores", "nodes", "gpus"});
    throw ConfigError(fmt::format("--least '{}': write {}, or a path as cluster.store.bytes_per_s",
                                  name, nearest.empty() ? "cache, cores, nodes, gpus" : nearest));
  } else {
    setting.paths = {name};
    if (between.empty()) {
      throw ConfigError(
          fmt::format("--least {}: nothing says how far to look; add --between A,B", name));
    }
  }
  if (!between.empty()) setting.range = read_range(name, between, setting.range);
  return setting;
}

// --------------------------------------------------------------------------------- search ----

std::vector<std::uint64_t> LeastSearch::between(std::uint64_t low, std::uint64_t high,
                                                std::size_t count) const {
  constexpr double kCloseEnough = 1.02;
  std::vector<std::uint64_t> values;
  if (high - low <= 1) return values;
  const auto from = static_cast<double>(low);
  const auto to = static_cast<double>(high);
  if (range_.is_bytes && to <= from * kCloseEnough) return values;
  for (std::size_t i = 1; i <= count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count + 1);
    const std::uint64_t value =
        range_.is_bytes ? rounded(from * std::pow(to / from, part))
                        : static_cast<std::uint64_t>(std::llround(from + (to - from) * part));
    if (value > low && value < high && !tried_.contains(value) &&
        (values.empty() || values.back() < value))
      values.push_back(value);
  }
  return values;
}

std::vector<std::uint64_t> LeastSearch::next() const {
  if (tried_.empty()) {
    std::vector<std::uint64_t> values{range_.least};
    if (range_.most == range_.least) return values;
    if (at_once_ > 2) {
      for (const std::uint64_t value : between(range_.least, range_.most, at_once_ - 2))
        values.push_back(value);
    }
    values.push_back(range_.most);
    return values;
  }
  const auto high = answer();
  const auto low = below();
  if (!high || !low) return {};
  return between(*low, *high, std::max<std::size_t>(1, at_once_));
}

std::optional<std::uint64_t> LeastSearch::answer() const {
  std::optional<std::uint64_t> least;
  for (auto tried = tried_.rbegin(); tried != tried_.rend() && tried->second; ++tried)
    least = tried->first;
  return least;
}

std::optional<std::uint64_t> LeastSearch::below() const {
  const auto least = answer();
  if (!least) return std::nullopt;
  const auto found = tried_.find(*least);
  if (found == tried_.begin()) return std::nullopt;
  return std::prev(found)->first;
}

std::vector<std::uint64_t> LeastSearch::out_of_line() const {
  std::vector<std::uint64_t> values;
  const auto least = answer();
  for (const auto& [value, meets] : tried_) {
    if (least && value >= *least) break;
    if (meets) values.push_back(value);
  }
  return values;
}

}  // namespace batchflow::sim
