#include "programs/input/mixed_workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "programs/input/find_config.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"

namespace batchflow::input {

namespace {

using NodeKind = config::ConfigNode::Kind;

config::ConfigNode scalar_like(const config::ConfigNode& like, const std::string& text) {
  config::ConfigNode node;
  node.source = like.source;
  node.kind = NodeKind::scalar;
  node.scalar = text;
  return node;
}

std::string scalar(const config::ConfigNode& node, std::string_view key) {
  const config::ConfigNode* value = node.find(key);
  return value != nullptr && value->kind == NodeKind::scalar ? value->scalar : "";
}

std::string name_in(const config::ConfigNode& node) {
  return scalar(node, "name");
}

// The list under `key`, which is made if need be.
std::vector<config::ConfigNode>& list_in(config::ConfigNode& tree, const std::string& key) {
  if (tree.find(key) == nullptr || tree.find(key)->kind == NodeKind::empty) {
    config::ConfigNode list;
    list.source = tree.source;
    list.kind = NodeKind::list;
    tree.set(key, list);
  }
  config::ConfigNode& node = *tree.find(key);
  if (node.kind != NodeKind::list)
    throw ConfigError(fmt::format("{}: key '{}': not a list", node.source.text(), key));
  return node.list;
}

using Names = std::map<std::string, std::string>;  // what a name of the added workload is here

// Joins one added tree into another.
class Joining {
 public:
  Joining(config::ConfigNode& tree, config::ConfigNode& other, const AddedWorkload& added)
      : tree_(tree), other_(other), added_(added) {}

  std::vector<std::string> run() {
    const Names datasets = add_named("datasets", "dataset");
    const Names pipelines = add_named("pipelines", "pipeline");
    add_jobs(datasets, pipelines);
    add_faults(datasets);
    return std::move(notes_);
  }

 private:
  void renamed(const std::string& what, const std::string& from, const std::string& to) {
    notes_.push_back(fmt::format("{} {} of {} is called {} here: another has its name", what, from,
                                 added_.name, to));
  }

  // A name that none of `all` has: data, data-2, data-3...
  static std::string free_name(const std::vector<config::ConfigNode>& all,
                               const std::string& name) {
    const auto is_taken = [&](const std::string& text) {
      return std::any_of(all.begin(), all.end(), [&](const config::ConfigNode& node) {
        // A job of several copies takes NAME-0, NAME-1...
        return name_in(node) == text ||
               (node.find("count") != nullptr && text.starts_with(name_in(node) + "-"));
      });
    };
    std::string free = name;
    for (int i = 2; is_taken(free); ++i) free = fmt::format("{}-{}", name, i);
    return free;
  }

  Names add_named(const std::string& key, const std::string& what) {
    Names names;
    if (other_.find(key) == nullptr) return names;
    std::vector<config::ConfigNode>& all = list_in(tree_, key);
    for (config::ConfigNode& node : list_in(other_, key)) {
      const std::string name = name_in(node);
      const std::string text = config::text_of(node);
      const bool is_there = std::any_of(
          all.begin(), all.end(),
          [&](const config::ConfigNode& known) { return config::text_of(known) == text; });
      names[name] = name;
      if (is_there) {
        notes_.push_back(fmt::format("{} {} of {} is the same as the one that is there already",
                                     what, name, added_.name));
        continue;
      }
      const std::string free = free_name(all, name);
      if (free != name) {
        renamed(what, name, free);
        node.set("name", scalar_like(node, free));
        names[name] = free;
      }
      all.push_back(std::move(node));
    }
    return names;
  }

  static void rename(config::ConfigNode& node, const std::string& key, const Names& names) {
    const auto found = names.find(scalar(node, key));
    if (found != names.end()) node.set(key, scalar_like(*node.find(key), found->second));
  }

  void add_jobs(const Names& datasets, const Names& pipelines) {
    std::vector<config::ConfigNode>& all = list_in(tree_, "jobs");
    for (config::ConfigNode& job : list_in(other_, "jobs")) {
      rename(job, "dataset", datasets);
      rename(job, "pipeline", pipelines);
      const std::string name = name_in(job);
      const std::string free = name.empty() ? name : free_name(all, name);
      if (free != name) {
        renamed("job", name, free);
        job.set("name", scalar_like(job, free));
      }
      if (added_.after.count() > 0) {
        const std::string text = scalar(job, "arrives");
        const auto arrives = parse_duration(text.empty() ? "0s" : text);
        if (arrives)  // else the reader of jobs says what is wrong with it
          job.set("arrives",
                  scalar_like(job, fmt::format("{}ns", (*arrives + added_.after).count())));
      }
      all.push_back(std::move(job));
    }
  }

  void add_faults(const Names& datasets) {
    if (other_.find("faults") == nullptr) return;
    std::vector<config::ConfigNode>& all = list_in(tree_, "faults");
    for (config::ConfigNode& fault : list_in(other_, "faults")) {
      if (scalar(fault, "kind") == "corrupt-samples") rename(fault, "target", datasets);
      for (const char* key : {"at", "until"}) {
        const auto time = parse_duration(scalar(fault, key));
        if (time && added_.after.count() > 0)
          fault.set(key, scalar_like(fault, fmt::format("{}ns", (*time + added_.after).count())));
      }
      all.push_back(std::move(fault));
    }
  }

  config::ConfigNode& tree_;
  config::ConfigNode& other_;
  const AddedWorkload& added_;
  std::vector<std::string> notes_;
};

// What holds for all jobs of a run: the first that come bring it, and those of later ones must not
// differ, unless it was settled.
void share_or_refuse(config::ConfigNode& tree, const config::ConfigNode& other,
                     const AddedWorkload& added, const std::vector<std::string>& settled) {
  struct Shared {
    const char* key;
    const char* remedy;
  };
  constexpr Shared kShared[] = {
      {"cluster", "--cluster NAME says on which one all jobs run"},
      {"engine", "--set 'engine={preset: default}' says what holds for all"},
      {"grain", "--set 'grain={samples_per_item: 64}' says what holds for all"},
      {"scheduler", "--set scheduler=fifo says what holds for all"},
      {"after_loss", "--set after_loss=waits says what holds for all"}};
  const bool is_first = tree.find("jobs") == nullptr;
  for (const Shared& shared : kShared) {
    const config::ConfigNode* theirs = other.find(shared.key);
    if (theirs == nullptr || theirs->kind == NodeKind::empty) continue;
    if (std::find(settled.begin(), settled.end(), shared.key) != settled.end()) continue;
    const config::ConfigNode* mine = tree.find(shared.key);
    const bool is_missing = mine == nullptr || mine->kind == NodeKind::empty;
    if (is_first && is_missing) {
      tree.set(shared.key, *theirs);
      continue;
    }
    const std::string here = is_missing ? "none" : config::text_of(*mine);
    const std::string there = config::text_of(*theirs);
    if (here == there) continue;
    const auto shown = [](const std::string& text) {
      constexpr std::size_t kMost = 80;
      return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
    };
    throw ConfigError(fmt::format("{}: key '{}': {} has {}, and what it joins has {}; {}",
                                  theirs->source.text(), shared.key, added.name, shown(there),
                                  shown(here), shared.remedy));
  }
}

}  // namespace

AddedWorkload parse_added_workload(const std::string& text) {
  AddedWorkload added{text, Duration(0)};
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos) return added;
  const auto after = parse_duration(text.substr(at + 1));
  if (!after || at == 0) {
    throw ConfigError(fmt::format(
        "workload '{}': '{}' is not a time; write NAME@10min, or NAME alone for jobs that arrive "
        "as they are",
        text, text.substr(at + 1)));
  }
  return {text.substr(0, at), *after};
}

std::vector<std::string> add_workload(config::ConfigNode& tree, const AddedWorkload& added,
                                      const std::vector<std::string>& settled,
                                      const std::string& near) {
  const auto scenario = config_named(added.name, "scenarios", near);
  const auto workload = config_named(added.name, "workloads", near);
  const std::string path =
      scenario && !workload ? *scenario : find_config(added.name, "workloads", near);
  config::ConfigNode other = read_yaml_file(path);
  resolve_names(other, path);
  const std::string kind = scalar(other, "kind");
  if (!kind.empty() && kind != "workload" && kind != "scenario") {
    throw ConfigError(
        fmt::format("{}: this is a {}; name a file of kind: workload or scenario", path, kind));
  }
  if (other.find("jobs") == nullptr)
    throw ConfigError(fmt::format("{}: it has no jobs; name a workload or a scenario", path));
  share_or_refuse(tree, other, added, settled);
  return Joining(tree, other, added).run();
}

}  // namespace batchflow::input
