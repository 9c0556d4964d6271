#include "runtime/service/control/reload.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

const NodeDataset* find(const std::vector<NodeDataset>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const NodeDataset& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Where in the file it is written does not matter.
bool same_split(const NodeSplit& a, const NodeSplit& b) {
  const auto same_range = [](const auto& one, const auto& other) {
    return one.has_value() == other.has_value() &&
           (!one || (one->first == other->first && one->last == other->last));
  };
  return a.name == b.name && a.rule.folder == b.rule.folder && a.rule.subset == b.rule.subset &&
         same_range(a.rule.keys, b.rule.keys) && a.rule.fraction == b.rule.fraction &&
         a.rule.rest == b.rule.rest && a.rule.classes == b.rule.classes &&
         same_range(a.rule.bytes, b.rule.bytes);
}

bool same_data(const NodeDataset& a, const NodeDataset& b) {
  return a.path == b.path && a.format == b.format && a.tokens == b.tokens &&
         a.sequences == b.sequences && a.column == b.column && a.label == b.label &&
         a.everyone == b.everyone &&
         std::equal(a.splits.begin(), a.splits.end(), b.splits.begin(), b.splits.end(), same_split);
}

void compare_datasets(const NodeConfig& running, const NodeConfig& wanted, ReloadPlan& plan) {
  for (const NodeDataset& one : running.datasets) {
    const NodeDataset* other = find(wanted.datasets, one.name);
    if (!other || !same_data(one, *other)) plan.removed.push_back(one);
  }
  for (const NodeDataset& one : wanted.datasets) {
    const NodeDataset* other = find(running.datasets, one.name);
    if (!other || !same_data(one, *other)) {
      plan.added.push_back(one);
    } else {
      if (one.pipeline != other->pipeline) plan.pipelines.push_back(one);
      if (one.pin != other->pin) plan.pins.push_back(one);
    }
  }
}

// visit(key, members...) for each key that takes a restart.
template <class Visit>
void visit_fixed(Visit&& visit) {
  visit("socket", &NodeConfig::socket);
  visit("state", &NodeConfig::state);
  visit("exit_when_idle", &NodeConfig::exit_when_idle);
  visit("log", &NodeConfig::log);
  visit("log_file", &NodeConfig::log_file);
  visit("log_bytes", &NodeConfig::log_bytes);
  visit("journal", &NodeConfig::journal);
  visit("explain", &NodeConfig::explain);
  visit("http", &NodeConfig::http_address, &NodeConfig::http_port, &NodeConfig::http_hosts);
  visit("tcp", &NodeConfig::tcp);
  visit("cluster", &NodeConfig::cluster);
  visit("storage", &NodeConfig::storage);
  visit("scratch", &NodeConfig::scratch);
  visit("spill", &NodeConfig::spill);
}

}  // namespace

bool ReloadPlan::changes_nothing() const {
  return removed.empty() && added.empty() && pipelines.empty() && pins.empty() &&
         engine.policies.empty() && engine.settings.empty() && looked_up.empty() && !memory &&
         !workers;
}

std::string ReloadPlan::summary() const {
  std::vector<std::string> parts;
  for (const NodeDataset& one : removed) parts.push_back("dataset " + one.name + " goes");
  for (const NodeDataset& one : added) parts.push_back("dataset " + one.name + " comes");
  for (const NodeDataset& one : pipelines)
    parts.push_back(fmt::format("dataset {} has pipeline {}", one.name,
                                one.pipeline.empty() ? "by what it holds" : one.pipeline));
  for (const NodeDataset& one : pins)
    parts.push_back(
        fmt::format("dataset {} is {}", one.name, one.pin ? "pinned" : "pinned no more"));
  parts.insert(parts.end(), engine.policies.begin(), engine.policies.end());
  parts.insert(parts.end(), engine.settings.begin(), engine.settings.end());
  if (memory) parts.emplace_back("memory");
  if (workers) parts.emplace_back("workers");
  parts.insert(parts.end(), looked_up.begin(), looked_up.end());
  return parts.empty() ? "nothing changes" : fmt::format("{}", fmt::join(parts, ", "));
}

ReloadPlan plan_reload(const NodeConfig& running, const NodeConfig& wanted) {
  ReloadPlan plan;
  compare_datasets(running, wanted, plan);
  plan.engine = engine_changes(running.engine_config(), wanted.engine_config());
  if (plan.engine.takes_restart)
    plan.takes_restart.emplace_back(
        "engine: a setting beside those that batchflowctl policy set preset=NAME changes, and "
        "credits, corrupt_ratio_max, rank_timeout, retry_wait and read_attempts");
  plan.memory = running.memory != wanted.memory;
  plan.workers = running.workers != wanted.workers;
  const auto looked_up = [&](bool differs, const char* what) {
    if (differs) plan.looked_up.emplace_back(what);
  };
  looked_up(running.engine.corrupt_ratio_max != wanted.engine.corrupt_ratio_max &&
                running.engine_config() == wanted.engine_config(),
            "corrupt_ratio_max");
  looked_up(running.corrupt_ratio_allowed != wanted.corrupt_ratio_allowed, "corrupt_ratio_allowed");
  looked_up(running.quotas.of_all != wanted.quotas.of_all, "limits");
  looked_up(running.quotas.of_some != wanted.quotas.of_some, "users");
  looked_up(running.drain != wanted.drain, "drain");
  looked_up(running.user_labels != wanted.user_labels, "http.user_labels");
  looked_up(running.open_datasets != wanted.open_datasets, "open_datasets");
  looked_up(running.brought_kept != wanted.brought_kept, "brought_kept");
  looked_up(running.pipelines != wanted.pipelines, "pipelines");
  looked_up(running.steps != wanted.steps, "steps");
  visit_fixed([&](const char* key, auto... members) {
    if (((running.*members != wanted.*members) || ...)) plan.takes_restart.emplace_back(key);
  });
  return plan;
}

NodeConfig after_reload(const NodeConfig& running, const NodeConfig& wanted) {
  NodeConfig after = wanted;
  visit_fixed([&](const char*, auto... members) { ((after.*members = running.*members), ...); });
  after.engine = reachable(running.engine, wanted.engine);
  return after;
}

}  // namespace batchflow::service
