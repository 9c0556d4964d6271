// A changed configuration, while the service runs.
#include "runtime/service/dataset_splits.h"
#include "runtime/service/notify.h"
#include "runtime/service/reload.h"
#include "runtime/service/service_parts.h"

namespace batchflow {

std::string Service::Parts::reload() {
  if (draining) throw ConfigError("nothing changes: the service is draining");
  notify_manager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                             std::chrono::duration_cast<std::chrono::microseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count()));
  std::string result, problem;
  try {
    result = reread ? apply(reread()) : "there is no file to read";
  } catch (const std::exception& error) {
    problem = fmt::format("nothing changes: {}", error.what());
  }
  log.say({fmt::format("reload: {}", problem.empty() ? result : problem),
           problem.empty() ? LogLevel::info : LogLevel::error});
  notify_manager("READY=1\nSTATUS=serving");
  if (!problem.empty()) throw ConfigError(problem);
  return result;
}

std::string Service::Parts::apply(const NodeConfig& wanted) {
  ReloadPlan plan = plan_reload(written, wanted);
  NodeConfig next = wanted;
  next.storage = config.storage;
  next.spill = config.spill;
  next.steps_bytes = config.steps_bytes;
  next.steps.ending = config.steps.ending;
  if (!plan.memory) next.memory = config.memory;
  settle(next, config.memory);
  if (plan.workers && next.workers > workers_at_start) {
    plan.takes_restart.push_back(
        fmt::format("workers: more than the {} it began with", workers_at_start));
    next.workers = workers_at_start;
  }
  for (const std::string& text : plan.policies) {
    const std::size_t equals = text.find('=');
    check_policy(text.substr(0, equals), text.substr(equals + 1));
  }
  // From here on nothing can fail.
  if (plan.memory) {
    inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, next.engine_bytes()});
    backend->set_memory(next.cache_bytes());
  }
  if (plan.workers) backend->set_workers_most(next.workers);
  for (const std::string& text : plan.policies) inbox.add(PolicyChanged{inbox.keep(text)});
  for (const std::string& text : plan.settings) inbox.add(ConfigurationChanged{inbox.keep(text)});
  for (const NodeDataset& one : plan.removed) joining->remove(one);
  for (const NodeDataset& one : plan.added) joining->open(one);
  for (const NodeDataset& one : plan.pipelines) {
    if (ServedDataset* served = datasets.find(std::string_view(one.name)))
      served->pipeline = one.pipeline;
  }
  for (const NodeDataset& one : plan.pins) {
    for (const std::string& name : served_names(one)) {
      if (ServedDataset* served = datasets.find(std::string_view(name)))
        joining->keep(*served, one.pin ? Keep::always : Keep::as_needed);
    }
  }
  users.set(next.quotas);
  config.memory = next.memory;
  config.workers = next.workers;
  config.drain = next.drain;
  config.user_labels = next.user_labels;
  config.open_datasets = next.open_datasets;
  config.corrupt_ratio_allowed = next.corrupt_ratio_allowed;
  config.brought_kept = next.brought_kept;
  config.pipelines = next.pipelines;
  config.steps = next.steps;
  written = after_reload(written, wanted);
  config.engine = written.engine;
  jobs.set_options(jobs_options(config));
  schedule();
  std::string result = plan.summary();
  for (const std::string& one : plan.takes_restart)
    result += fmt::format("; {}: takes a restart", one);
  return result;
}

}  // namespace batchflow
