#include "sim/common_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/engine_config.h"
#include "programs/config/engine_settings.h"
#include "programs/input/scenario.h"
#include "programs/output/terminal.h"
#include "sim/numbers.h"
#include "sim/report/html.h"
#include "sim/setup_differences.h"
#include "sim/variants.h"

namespace batchflow::sim {

namespace {

// The pairs of the first that all have. Empty lists say nothing.
SetupPairs common(const std::vector<SetupPairs>& all) {
  SetupPairs result;
  bool is_first = true;
  for (const SetupPairs& pairs : all) {
    if (pairs.empty()) continue;
    if (is_first) {
      result = pairs;
      is_first = false;
      continue;
    }
    std::erase_if(result, [&](const auto& pair) {
      return std::find(pairs.begin(), pairs.end(), pair) == pairs.end();
    });
  }
  return result;
}

SetupPairs counted_part(const output::RunResult& run) {
  return {{"figures count from", time_text(run.counted_from_s)}};
}

template <class Part>
SetupPairs common_of(std::span<const output::RunResult> runs, const Part& part_of) {
  std::vector<SetupPairs> all;
  for (const output::RunResult& run : runs)
    if (!run.settings.empty()) all.push_back(part_of(run));
  return common(all);
}

// The settings of an engine of scenarios that has this preset, and that no user has changed.
std::map<std::string, std::string> usual_settings(const SetupPairs& policies) {
  engine::EngineConfig engine = input::engine_of_scenarios();
  for (const auto& [kind, name] : policies) {
    if (kind != "preset") continue;
    try {
      engine::apply_preset(engine, name);
    } catch (const ConfigError&) {  // of another version: all settings are shown
      return {};
    }
  }
  std::map<std::string, std::string> all;
  config::visit_settings(
      config::text_of(engine),
      [&](std::string_view key, std::string_view value) { all.emplace(key, value); });
  return all;
}

// What a reader wants of a cluster, on one line: `2 nodes, 8 gpus, 64 cores, cache 24 GB`.
std::string cluster_text(const SetupPairs& cluster) {
  std::string text;
  for (const auto& [key, value] : cluster) {
    const std::string name = key.substr(key.rfind('.') + 1);
    if (value == "0" || value == "not measured" || value == "no limit") continue;
    text += text.empty() ? "" : ", ";
    if (name.find("bytes") == std::string::npos) {
      const std::string_view one = std::string_view(name).substr(0, name.size() - 1);
      text += fmt::format("{} {}", value, value == "1" ? one : std::string_view(name));
      continue;
    }
    const bool is_rate = name.ends_with("_per_s");
    const auto bytes = parse_number(value);
    text += fmt::format("{} {}{}", name.substr(0, name.find("_bytes")),
                        bytes ? size_text(static_cast<Bytes>(*bytes)) : value,
                        bytes && is_rate ? "/s" : "");
  }
  return text;
}

std::string names_text(const SetupPairs& workload) {
  constexpr std::size_t kNamesMost = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(workload.size(), kNamesMost); ++i)
    names.push_back(output::printable(workload[i].first));
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (workload.size() > kNamesMost)
    text += fmt::format(" and {} more; --json has all", workload.size() - kNamesMost);
  return text;
}

}  // namespace

CommonSetup common_setup(std::span<const output::RunResult> runs) {
  CommonSetup setup;
  setup.policies = fixed_policies(runs);
  setup.settings = common_of(runs, [](const output::RunResult& run) { return run.settings; });
  setup.cluster = common_of(runs, cluster_of);
  setup.workload = common_of(runs, [](const output::RunResult& run) { return run.workload; });
  setup.run = common_of(runs, counted_part);
  return setup;
}

std::string common_lines(std::span<const output::RunResult> runs) {
  const CommonSetup setup = common_setup(runs);
  std::string text = policies_lines(runs);
  const std::map<std::string, std::string> all_usual = usual_settings(setup.policies);
  std::string settings;
  for (const auto& [key, value] : setup.settings) {
    const auto usual = all_usual.find(key);
    if (usual != all_usual.end() && usual->second == value) continue;
    if (key == "seed") continue;  // reports name it beside each run
    settings += fmt::format("{}{}={}", settings.empty() ? "" : ", ", output::printable(key),
                            output::printable(value));
  }
  if (!settings.empty()) text += fmt::format("engine in all runs: {}\n", settings);
  if (const std::string cluster = cluster_text(setup.cluster); !cluster.empty())
    text += fmt::format("cluster in all runs: {}\n", cluster);
  if (!setup.workload.empty())
    text += fmt::format("workload in all runs: {}\n", names_text(setup.workload));
  for (const output::RunResult& run : runs) {
    if (run.counted_from_s == 0) continue;
    text += fmt::format(
        "figures over all jobs count from {} on (warm_up), completion times and slowdowns the "
        "jobs that ended after it; rows of jobs count all\n",
        time_text(run.counted_from_s));
    break;
  }
  return text;
}

std::string common_html(std::span<const output::RunResult> runs) {
  const CommonSetup setup = common_setup(runs);
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const char* what, const SetupPairs& pairs) {
    for (const auto& [key, value] : pairs)
      rows.push_back({text_cell(what), text_cell(key), text_cell(value)});
  };
  add("policies", setup.policies);
  add("engine", setup.settings);
  add("cluster", setup.cluster);
  add("workload", setup.workload);
  add("figures", setup.run);
  if (rows.empty()) return "";
  return html_section("same", "The same in all runs", "",
                      html_table({{"of", "", true}, {"what", "", true}, {"is", "", true}}, rows));
}

std::string with_common_setup(std::span<const output::RunResult> runs, const std::string& more) {
  using Json = nlohmann::ordered_json;
  const CommonSetup setup = common_setup(runs);
  Json json = Json::parse(more);
  Json& same = json["same_in_all_runs"] = Json::object();
  const auto add = [&](const char* what, const SetupPairs& pairs) {
    same[what] = Json::object();
    for (const auto& [key, value] : pairs) same[what][key] = value;
  };
  add("policies", setup.policies);
  add("settings", setup.settings);
  add("cluster", setup.cluster);
  add("workload", setup.workload);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace batchflow::sim
