#include "sim/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "policies/registry.h"
#include "programs/input/find_config.h"
#include "programs/input/mixed_workloads.h"
#include "programs/input/yaml.h"
#include "sim/figures.h"
#include "sim/variants.h"

namespace batchflow::sim {

namespace {

constexpr std::size_t kRunsMost = 100'000;

using Assignment = std::pair<std::string, config::ConfigNode>;  // path, value
using Assignments = std::vector<Assignment>;

struct Study {
  std::string name;
  std::string about;
  std::string scenario;                // a path, or a name
  std::vector<std::string> workloads;  // that join it: NAME[@TIME]
  std::vector<Variant> variants;
  Assignments set;
  std::vector<std::pair<std::string, std::vector<config::ConfigNode>>> grid;
  std::vector<Assignments> list;
  std::size_t seeds = 1;
  std::uint64_t seed = 0;  // 0: that of the scenario
  std::vector<std::string> figures;
  bool warm = false;
  Duration warm_at{0};
};

[[noreturn]] void refuse(const config::ConfigNode& node, const std::string& what) {
  throw ConfigError(node.source.text() + ": " + what);
}

// Paths and their values: a map with keys that only the scenario knows.
Assignments assignments(const config::ConfigNode& node, const std::string& key) {
  if (node.kind == config::ConfigNode::Kind::empty) return {};
  if (node.kind != config::ConfigNode::Kind::map) {
    refuse(node, fmt::format("key '{}': not settings; write `path.to.key: value` lines", key));
  }
  Assignments result;
  for (const config::ConfigEntry& entry : node.map) result.emplace_back(entry.key, entry.value);
  return result;
}

void read_grid(const config::ConfigNode& tree, Study& study) {
  const config::ConfigNode* node = tree.find("grid");
  if (node == nullptr) return;
  for (auto& [path, values] : assignments(*node, "grid")) {
    if (values.kind != config::ConfigNode::Kind::list || values.list.empty()) {
      refuse(values, fmt::format("key 'grid.{}': not a list of values; write [1gb, 2gb]", path));
    }
    for (auto value = values.list.begin(); value != values.list.end(); ++value) {
      const std::string text = config::text_of(*value);
      const bool twice = std::any_of(
          values.list.begin(), value,
          [&](const config::ConfigNode& other) { return config::text_of(other) == text; });
      if (twice) {
        refuse(*value,
               fmt::format("key 'grid.{}': {} stands there twice; leave one out", path, text));
      }
    }
    study.grid.emplace_back(path, values.list);
  }
}

void read_list(const config::ConfigNode& tree, Study& study) {
  const config::ConfigNode* node = tree.find("list");
  if (node == nullptr || node->kind == config::ConfigNode::Kind::empty) return;
  if (!study.grid.empty()) {
    refuse(*node, "key 'list': there is a grid too; keep one of them");
  }
  if (node->kind != config::ConfigNode::Kind::list) {
    refuse(*node, "key 'list': not a list; write `- {path.to.key: value}` lines");
  }
  for (const config::ConfigNode& entry : node->list) {
    study.list.push_back(assignments(entry, "list"));
    const Assignments& first = study.list.front();
    const Assignments& last = study.list.back();
    const bool same = std::equal(first.begin(), first.end(), last.begin(), last.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) {
      refuse(entry, "key 'list': the first entry has other paths; name the same paths in each");
    }
    const bool twice =
        std::any_of(study.list.begin(), study.list.end() - 1, [&](const Assignments& other) {
          return std::equal(other.begin(), other.end(), last.begin(), last.end(),
                            [](const auto& a, const auto& b) {
                              return config::text_of(a.second) == config::text_of(b.second);
                            });
        });
    if (twice) refuse(entry, "key 'list': an entry stands there twice; leave one out");
  }
}

Study read_study(const std::string& path) {
  const config::ConfigNode tree = input::read_yaml_file(path);
  Study study;
  config::read_config(tree, [&](config::ConfigSection& section) {
    const std::string kind = section.text("kind", "study");
    if (kind != "study") {
      section.refuse("kind", fmt::format("this is a {}", kind), "name a file of kind: study");
    }
    study.name = section.text("name", std::filesystem::path(path).stem().string());
    study.about = section.text("about", "");
    section.require("scenario", "the name or path of a scenario");
    study.scenario = input::find_config(section.text("scenario", ""), "scenarios", path);
    study.workloads = section.texts("workloads");
    try {
      study.variants = parse_variants(policies::policy_list(), section.texts("policies"));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: key 'policies': {}", tree.find("policies")->source.text(),
                                    error.what()));
    }
    study.seeds = static_cast<std::size_t>(section.integer("seeds", 1, 1, 10'000));
    study.seed = section.seed("seed", 0);
    study.figures = section.texts("figures");
    for (const std::string& figure : study.figures) {
      try {
        figure_named(figure);
      } catch (const ConfigError& error) {
        section.refuse("figures", error.what(), "see the table in the user guide");
      }
    }
    section.section("warm_start", [&](config::ConfigSection& warm) {
      warm.require("at", "the simulated time until which all runs of a seed are the same, as 600s");
      study.warm = true;
      study.warm_at = warm.duration("at", Duration(0), Duration(1));
    });
    for (const char* key : {"set", "grid", "list"}) section.has(key);
  });
  if (study.figures.empty()) study.figures = {"samples_per_s", "stall_fraction"};
  if (const config::ConfigNode* set = tree.find("set")) study.set = assignments(*set, "set");
  read_grid(tree, study);
  read_list(tree, study);
  return study;
}

// ---------------------------------------------------------------------------------- planning ----

// What a point varies, in the order of the axes.
struct Point {
  std::vector<std::size_t> indices;
  Assignments set;
  Variant variant;
};

// All combinations; the last axis changes first.
std::vector<Point> points_of(const Study& study, StudyPlan& plan) {
  std::vector<Point> points(1);
  const auto cross = [&](std::size_t values, const auto& apply) {
    std::vector<Point> crossed;
    for (const Point& point : points) {
      for (std::size_t i = 0; i < values; ++i) {
        Point with = point;
        with.indices.push_back(i);
        apply(i, with);
        crossed.push_back(std::move(with));
      }
    }
    points = std::move(crossed);
  };
  for (const auto& [path, values] : study.grid) {
    StudyAxis axis{path, {}};
    for (const config::ConfigNode& value : values) axis.values.push_back(config::text_of(value));
    plan.axes.push_back(std::move(axis));
    cross(values.size(), [&, &name = path, &all = values](std::size_t i, Point& point) {
      point.set.emplace_back(name, all[i]);
    });
  }
  if (!study.list.empty()) {
    std::string name;
    StudyAxis axis;
    for (const Assignments& entry : study.list) {
      std::string text;
      for (const auto& [path, value] : entry) {
        if (&entry == &study.list.front()) name += (name.empty() ? "" : ", ") + path;
        text += (text.empty() ? "" : ", ") + config::text_of(value);
      }
      axis.values.push_back(text);
    }
    axis.name = name;
    plan.axes.push_back(std::move(axis));
    cross(study.list.size(), [&](std::size_t i, Point& point) {
      point.set.insert(point.set.end(), study.list[i].begin(), study.list[i].end());
    });
  }
  const std::vector<Variant>& variants = study.variants;
  if (variants.size() > 1) {
    StudyAxis axis{"policy", {}};
    for (const Variant& variant : variants) axis.values.push_back(variant.label);
    plan.axes.push_back(std::move(axis));
    cross(variants.size(), [&](std::size_t i, Point& point) { point.variant = variants[i]; });
  } else {
    for (Point& point : points) point.variant = variants.front();
  }
  return points;
}

std::string label_of(const StudyPlan& plan, const Point& point) {
  std::string label;
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const StudyAxis& axis = plan.axes[i];
    const std::string& value = axis.values[point.indices[i]];
    label += label.empty() ? "" : " ";
    label += axis.name == "policy" ? value : axis.name + "=" + value;
  }
  return label;
}

config::ConfigNode tree_of(const Study& study, const config::ConfigNode& scenario,
                           const Point& point) {
  config::ConfigNode tree = scenario;
  apply_variant(point.variant, tree);
  for (const Assignments* all : {&study.set, &point.set}) {
    for (const auto& [path, value] : *all) tree.set(path, value);
  }
  return tree;
}

// Whether a run can change the setting while it goes on. Of the engine: its policies, and the
// settings that it names.
bool can_change(const std::string& path) {
  constexpr std::string_view paths[] = {"engine.credits",      "engine.read_attempts",
                                        "engine.retry_wait",   "engine.rank_timeout",
                                        "cluster.store.curve", "cluster.store.bytes_per_s"};
  const bool of_node =
      path.starts_with("cluster.nodes.") && (path.ends_with(".cores") || path.ends_with(".cache"));
  return of_node || path.starts_with("engine.policies.") ||
         std::find(std::begin(paths), std::end(paths), path) != std::end(paths);
}

void check_warm(const Point& point, const input::Scenario& beginning, const input::Scenario& then) {
  for (const auto& [path, value] : point.set) {
    if (!can_change(path)) {
      refuse(value, fmt::format("key '{}': cannot change in the middle of a run; leave out "
                                "warm_start, or vary policies, engine.credits, the rate of the "
                                "store, cores or caches",
                                path));
    }
    const engine::EngineConfig& engine = beginning.engine;
    if (path.ends_with(".cores") &&
        (engine.policies.scaling != "static" || engine.workers_per_rank > 0)) {
      refuse(value, fmt::format("key '{}': in the middle of a run cores can change with "
                                "scaling=static and shared workers only; leave out warm_start",
                                path));
    }
    if (beginning.cluster.store.bytes_per_s.empty() != then.cluster.store.bytes_per_s.empty()) {
      refuse(value, fmt::format("key '{}': a rate cannot come or go in the middle of a run; "
                                "set one for all runs",
                                path));
    }
  }
  for (const auto& [kind, name] : point.variant.choices) {
    if (kind == "preset") {
      throw ConfigError(
          fmt::format("--policy preset={}: a preset cannot change in the middle of a run; name "
                      "kinds, as dispatch={}",
                      name, beginning.engine.policies.dispatch));
    }
  }
}

Digest digest_of(const std::string& text, Digest before) {
  for (const char c : text) before = hash(before, static_cast<unsigned char>(c));
  return before;
}

input::Scenario scenario_of(const Study& study, const config::ConfigNode& tree) {
  input::Scenario scenario = input::read_scenario(tree);
  check_policies(policies::policy_list(), scenario.engine.policies, tree);
  if (scenario.name.empty()) scenario.name = study.scenario;
  return scenario;
}

input::Scenario with_seed(input::Scenario scenario, const Study& study, std::size_t index) {
  const bool follows = scenario.engine.seed == scenario.seed;
  if (study.seed != 0) scenario.seed = study.seed;
  if (follows) scenario.engine.seed = scenario.seed;
  return with_next_seed(std::move(scenario), index);
}

// The scenario with the workloads that join it. What `set` names holds for all.
config::ConfigNode mixed_scenario(const Study& study, std::vector<std::string>& notes) {
  config::ConfigNode tree = input::load_scenario(study.scenario);
  std::vector<std::string> settled;
  for (const auto& [path, value] : study.set) {
    settled.push_back(path.substr(0, path.find('.')));
    if (settled.back() == path) tree.set(path, value);
  }
  for (const std::string& text : study.workloads) {
    for (std::string& note :
         input::add_workload(tree, input::parse_added_workload(text), settled, study.scenario))
      notes.push_back(std::move(note));
  }
  return tree;
}

}  // namespace

StudyPlan plan_study(const std::string& name_or_path) {
  const Study study = read_study(input::find_config(name_or_path, "studies"));
  StudyPlan plan;
  plan.name = study.name;
  plan.about = study.about;
  plan.seeds = study.seeds;
  plan.figures = study.figures;
  const std::vector<Point> points = points_of(study, plan);
  if (points.size() * study.seeds > kRunsMost) {
    throw ConfigError(fmt::format("{}: {} runs, and {} are allowed; vary less", name_or_path,
                                  points.size() * study.seeds, kRunsMost));
  }
  const config::ConfigNode base = mixed_scenario(study, plan.notes);
  Digest digest = hash(digest_of(study.name, 0), study.warm_at.count());
  if (study.warm) {
    plan.warm_until = Instant(study.warm_at);
    input::Scenario beginning = scenario_of(study, tree_of(study, base, {}));
    for (std::size_t i = 0; i < study.seeds; ++i) {
      plan.beginnings.push_back(with_seed(beginning, study, i));
    }
  }
  for (const Point& point : points) {
    const config::ConfigNode tree = tree_of(study, base, point);
    const input::Scenario scenario = scenario_of(study, tree);
    if (study.warm) check_warm(point, plan.beginnings.front(), scenario);
    digest = digest_of(config::text_of(tree), hash(digest, study.seeds, study.seed));
    plan.points.push_back(point.indices);
    for (std::size_t i = 0; i < study.seeds; ++i) {
      plan.runs.push_back({label_of(plan, point), with_seed(scenario, study, i)});
    }
  }
  plan.fingerprint = fmt::format("{:016x}", digest);
  return plan;
}

std::string study_template() {
  return R"(# A study of batchflow-sim sweep. Keys that are left out have the values that stand here, but for
# those marked as examples.
kind: study
name: example           # default: the file's name
about: what it is for
scenario: four-jobs     # example: the name or path of a scenario
workloads: []           # more to train on the same cluster; example: [four-seeds@10min]

policies: []            # example: [preset=independent, preset=default], as for run --policy
set: {}                 # of all runs; example: {jobs.0.epochs: 1}

grid:                   # every combination is run; these are examples
  cluster.store.bytes_per_s: [200mb, 530mb]
  cluster.nodes.0.cores: [4, 8]
# list:                 # in place of a grid: these and no others
#   - {cluster.store.bytes_per_s: 200mb, cluster.nodes.0.cores: 4}
#   - {cluster.store.bytes_per_s: 2gb, cluster.nodes.0.cores: 32}

seeds: 1                # runs of each, of successive seeds; from 2 on with 95 % intervals
seed: 0                 # the first; 0: the scenario's

# warm_start: {at: 600s}   # until then all runs of a seed are one, which is simulated once; what is
                           # varied comes then: policies, engine.credits, store, cores, caches

figures: [samples_per_s, stall_fraction]   # that tables and plots show: the JSON's fields
)";
}

}  // namespace batchflow::sim
