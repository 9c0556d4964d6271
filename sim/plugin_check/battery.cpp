#include "sim/plugin_check/battery.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/base/config_value.h"
#include "nlohmann/json.hpp"
#include "programs/input/find_config.h"
#include "sim/figures.h"
#include "sim/planned_runs.h"
#include "sim/study.h"

namespace batchflow::sim {
namespace {

using nlohmann::json;

// One way to decide that is measured.
struct Candidate {
  std::string name;
  std::function<void(engine::EngineConfig&)> apply;
};

std::vector<Candidate> candidates_of(const plugin::Plugin& plugin) {
  std::vector<Candidate> all = {{"preset=default", [](engine::EngineConfig&) {}}};
  for (const engine::PolicyEntry* entry : plugin.policies()) {
    if (engine::is_asked_for_by_jobs(entry->kind())) continue;  // no job of the battery has one
    const std::string kind(engine::policy_kind_name(entry->kind()));
    const engine::PolicyChoice choice{entry, Parameters(entry->parameters)};
    all.push_back({fmt::format("{}={}", kind, entry->name),
                   [kind, text = choice.text()](engine::EngineConfig& config) {
                     engine::set_policy(config.policies, kind, text);
                   }});
  }
  for (const engine::Preset* preset : plugin.presets()) {
    all.push_back({fmt::format("preset={}", preset->name),
                   [preset](engine::EngineConfig& config) { preset->apply(config); }});
  }
  return all;
}

// What is wrong with a run; empty: nothing.
std::string problem_of(const std::optional<output::RunResult>& run) {
  if (!run || run->interrupted) return "a run was interrupted";
  if (!run->failure.empty()) return run->failure;
  for (const output::JobResult& job : run->jobs) {
    if (job.state != "done") return fmt::format("job {} is {}", job.name, job.state);
  }
  if (run->aggregate.repeats > 0) return "prepared samples came again";
  return "";
}

}  // namespace

json battery(const plugin::Plugin& plugin, std::uint64_t seeds) {
  const std::vector<Candidate> candidates = candidates_of(plugin);
  const std::map<std::string, std::string> files = input::list_configs("battery");
  if (files.empty()) throw ConfigError("configs/battery has no studies; install them");

  json scenarios = json::array();
  for (const auto& [name, file] : files) {
    const StudyPlan plan = plan_study(file);
    const std::size_t used = seeds == 0 ? plan.seeds : std::min<std::size_t>(seeds, plan.seeds);
    std::vector<PlannedRun> runs;
    for (const Candidate& candidate : candidates) {
      for (std::size_t run = 0; run < plan.runs.size(); ++run) {
        if (run % plan.seeds >= used) continue;
        runs.push_back(plan.runs[run]);
        candidate.apply(runs.back().scenario.engine);
        runs.back().label = candidate.name;
      }
    }
    const auto results = run_all(runs, {});
    const std::size_t each = runs.size() / candidates.size();
    for (std::size_t point = 0; point < each / used; ++point) {
      json scenario = {{"name", plan.name}, {"candidates", json::array()}};
      for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
        if (plan.axes[axis].values.size() > 1)
          scenario["at"][plan.axes[axis].name] = plan.value(point, axis);
      }
      for (std::size_t which = 0; which < candidates.size(); ++which) {
        json stalls = json::array(), rates = json::array();
        std::string problem;
        for (std::size_t seed = 0; seed < used; ++seed) {
          const auto& run = results[which * each + point * used + seed];
          if (problem.empty()) problem = problem_of(run);
          if (!run) continue;
          stalls.push_back(run->aggregate.stall_fraction);
          rates.push_back(run->aggregate.samples_per_s);
        }
        scenario["candidates"].push_back({{"name", candidates[which].name},
                                          {"problem", problem},
                                          {"stall", stalls},
                                          {"samples_per_s", rates}});
      }
      scenarios.push_back(scenario);
    }
  }
  return {{"scenarios", scenarios}};
}

}  // namespace batchflow::sim
