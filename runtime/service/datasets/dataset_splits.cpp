#include "runtime/service/datasets/dataset_splits.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/config/config.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/sources/stored_index.h"

namespace batchflow::service {
namespace {

std::string split_name(const NodeDataset& dataset, const NodeSplit& split) {
  return dataset.name + ":" + split.name;
}

// A job that names a split of what it brings wants only this split.
bool is_part_alone(const NodeDataset& dataset) {
  return dataset.is_brought() && !dataset.splits.empty();
}

config::ConfigNode scalar(std::string_view text) {
  config::ConfigNode node;
  node.kind = config::ConfigNode::Kind::scalar;
  node.scalar = std::string(text);
  return node;
}
config::ConfigNode list_of(std::string_view text, char between) {
  config::ConfigNode node;
  node.kind = config::ConfigNode::Kind::list;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(between);
    node.list.push_back(scalar(text.substr(0, end)));
    if (end == std::string_view::npos) break;
  }
  return node;
}

}  // namespace

NodeSplit read_split(config::ConfigSection& section, const std::vector<NodeSplit>& before) {
  NodeSplit split;
  section.require("name", "what follows the colon in DATASET:SPLIT");
  split.name = section.text("name", "");
  const bool plain =
      !split.name.empty() && std::all_of(split.name.begin(), split.name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
      });
  if (!plain)
    section.refuse("name", fmt::format("'{}' is no name of a split", split.name),
                   "write letters, digits, '-', '_' and '.', as train");
  const bool twice = std::any_of(before.begin(), before.end(),
                                 [&](const NodeSplit& other) { return other.name == split.name; });
  if (twice)
    section.refuse("name", fmt::format("there are two splits '{}'", split.name), "rename one");
  split.rule = sources::read_split_rule(section);
  return split;
}

NodeSplit split_from_argument(std::string_view text, const std::vector<NodeSplit>& before) {
  const auto fail = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("split={}: {}; write split=train:0.9, split=val:rest or "
                    "split=small:keys=0-999",
                    text, why));
  };
  config::ConfigNode node;
  node.kind = config::ConfigNode::Kind::map;
  std::optional<Ratio> fraction;  // of `rest`
  std::string_view rest = text;
  const auto cut = [&] {
    const std::string_view part = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  };
  const auto set = [&](std::string_view key, config::ConfigNode value) {
    if (node.find(key)) fail(fmt::format("{} is given twice", key));
    node.map.push_back({std::string(key), std::move(value)});
  };
  set("name", scalar(cut()));
  if (rest.empty()) fail("no rule");
  while (!rest.empty()) {
    const std::string_view rule = cut();
    const std::size_t equals = rule.find('=');
    const std::string_view key = rule.substr(0, equals);
    if (equals != std::string_view::npos) {
      const std::string_view value = rule.substr(equals + 1);
      set(key, key == "classes" ? list_of(value, '+') : scalar(value));
    } else if (rule == "rest") {
      const auto other = std::find_if(before.rbegin(), before.rend(), [](const NodeSplit& one) {
        return one.rule.fraction.has_value();
      });
      if (other == before.rend()) fail("no split before it has a fraction to leave a rest");
      fraction = other->rule.fraction;
      set("part", scalar("rest"));
      set("fraction", scalar("0"));  // is the other's, below
    } else if (parse_ratio(rule)) {
      set("fraction", scalar(rule));
    } else {
      fail(fmt::format("'{}' is no rule", rule));
    }
  }
  NodeSplit split;
  config::read_config(node,
                      [&](config::ConfigSection& section) { split = read_split(section, before); });
  if (fraction) split.rule.fraction = fraction;
  return split;
}

std::vector<std::string> served_names(const NodeDataset& dataset) {
  std::vector<std::string> names;
  if (!is_part_alone(dataset)) names.push_back(dataset.name);
  for (const NodeSplit& split : dataset.splits) names.push_back(split_name(dataset, split));
  return names;
}

namespace {

sources::SourceOptions options_of(const NodeDataset& dataset, const Requester& requester) {
  sources::SourceOptions options;
  options.name = dataset.name;
  options.root = dataset.path;
  options.format = dataset.format;
  options.tokens_per_sample = dataset.tokens;
  options.sequences = dataset.sequences;
  options.column = dataset.column;
  options.label_column = dataset.label;
  if (!dataset.is_brought()) return options;
  options.refuses_closed = !requester.is_trusted;
  options.memory_most = requester.memory_most;
  // What is in an index is shown only to the user for whom it was made.
  if (!requester.is_trusted) options.kept_for = fmt::format("user {}", requester.user);
  return options;
}

std::shared_ptr<sources::SampleIndex> open_feed(const NodeDataset& dataset) {
  const std::string path = dataset.path.string();
  if (dataset.is_brought())
    throw sources::DatasetError(fmt::format(
        "{} is a feed, which takes records as long as its service is up; have it served by a name "
        "(--dataset NAME={})",
        path, path));
  if (!dataset.splits.empty())
    throw sources::DatasetError(
        fmt::format("{} is a feed, and has no splits; leave them out", dataset.name));
  try {
    return feeds::open_feed(dataset.name, path);
  } catch (const feeds::FeedError& error) {
    throw sources::DatasetError(error.what());
  }
}

void check_samples(const NodeDataset& dataset, const Requester& requester,
                   const sources::SampleIndex& index) {
  if (requester.samples_most == 0 || index.samples() <= requester.samples_most) return;
  throw sources::DatasetError(fmt::format(
      "{}: it has {} samples, and jobs of user {} may bring {} more; serve it by a name (--dataset "
      "NAME={}), or start the service anew",
      dataset.path.string(), index.samples(), requester.user, requester.samples_most,
      dataset.path.string()));
}

}  // namespace

std::vector<OpenedIndex> open_with_splits(const NodeDataset& dataset, const Requester& requester,
                                          const std::filesystem::path& index_folder,
                                          const sources::StopAsked& stop) {
  std::vector<OpenedIndex> all;
  std::shared_ptr<const sources::DataRoot> root = requester.shown;
  std::shared_ptr<sources::SampleIndex> whole;
  std::string closed = dataset.path;  // until its files have been looked at
  const bool part_alone = is_part_alone(dataset);
  const bool is_feed = feeds::is_feed(dataset.path);
  const auto add = [&](std::string name, bool is_served, auto make) {
    OpenedIndex& one = all.emplace_back();
    one.name = std::move(name);
    try {
      const std::shared_ptr<sources::SampleIndex> index = make(one.name);
      if (is_served) {
        check_samples(dataset, requester, *index);
        // It is done here because only the jobs that want this dataset wait for this thread.
        // A feed has as many samples as it may ever have, all alike.
        one.catalogue = std::make_shared<engine::Catalogue>(
            is_feed ? index->catalogue() : sources::StoredIndex::catalogue_of(*index, stop));
        index->sums(stop);
      }
      one.index = index;
    } catch (const std::bad_alloc&) {
      throw;  // it is no fault of the data's
    } catch (const std::exception& error) {
      one.problem = error.what();
    }
    return one.index;
  };
  whole = add(dataset.name, !part_alone, [&](const auto&) -> std::shared_ptr<sources::SampleIndex> {
    if (!root) root = sources::open_data(dataset.path);
    if (is_feed) return open_feed(dataset);
    sources::SourceOptions options = options_of(dataset, requester);
    options.index_folder = index_folder;
    options.opened = root;
    options.stop = stop;
    if (dataset.is_brought()) options.closed = &closed;
    std::shared_ptr<sources::SampleIndex> index = sources::open_index(options);
    if (auto there = index->unpacked()) root = std::move(there);
    return index;
  });
  for (const NodeSplit& split : dataset.splits) {
    add(split_name(dataset, split), true,
        [&](const std::string& name) -> std::shared_ptr<sources::SampleIndex> {
          if (!whole) throw sources::DatasetError(all.front().problem);
          return sources::make_split(whole, split.rule, name, {stop, requester.memory_most});
        });
  }
  for (OpenedIndex& one : all) {
    one.root = root;
    if (dataset.is_brought()) one.closed = closed;
  }
  if (part_alone) all.erase(all.begin());
  return all;
}

}  // namespace batchflow::service
