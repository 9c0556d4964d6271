// Changes the configuration while the service runs.
#include <utility>

#include "runtime/service/control/reload.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {

namespace {

// The problems of what was opened; empty if all of it was opened.
std::string problems_of(const std::vector<Joining::Opened>& opened) {
  std::string all;
  for (const Joining::Opened& one : opened) {
    for (const OpenedIndex& part : one.parts) {
      if (!part.index)
        all += fmt::format("{}dataset {}: {}", all.empty() ? "" : "; ", part.name, part.problem);
    }
  }
  return all;
}

}  // namespace

void Service::Parts::reload(Reloaded done) {
  asked_next_reload.push_back(std::move(done));
  if (!reloading) begin_reload();
}

void Service::Parts::begin_reload() {
  reloading = true;
  asked_reload.swap(asked_next_reload);
  notify_manager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                             std::chrono::duration_cast<std::chrono::microseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count()));
  const auto attempt = [this](auto what) {
    try {
      if (draining) throw ConfigError("the service is draining");
      what();
    } catch (const std::exception& error) {
      end_reload("", fmt::format("nothing changes: {}", error.what()));
    }
  };
  attempt([&] {
    if (!reread) return end_reload("there is no file to read", "");
    const NodeConfig wanted = reread();
    NodeConfig next = wanted;
    joining->open_unserved(
        planned(next).added, [this, attempt, wanted](const std::vector<Joining::Opened>& opened) {
          attempt([&] {
            if (const std::string problem = problems_of(opened); !problem.empty())
              throw ConfigError(problem);
            end_reload(apply(wanted, opened), "");
          });
        });
  });
}

void Service::Parts::end_reload(const std::string& changed, const std::string& problem) {
  log.say({fmt::format("reload: {}", problem.empty() ? changed : problem),
           problem.empty() ? LogLevel::info : LogLevel::error});
  if (!draining) notify_manager("READY=1\nSTATUS=serving");
  for (const Reloaded& done : std::exchange(asked_reload, {}))
    if (done) done(changed, problem);
  reloading = false;
  if (!asked_next_reload.empty()) begin_reload();
}

ReloadPlan Service::Parts::planned(NodeConfig& next) const {
  NodeConfig running = written;
  running.engine = config.engine;  // commands may have changed it
  ReloadPlan plan = plan_reload(running, next);
  next.storage = config.storage;
  next.spill = config.spill;
  next.scratch = config.scratch;
  next.steps_bytes = config.steps_bytes;
  next.data_bytes = config.data_bytes;
  next.steps.ending = config.steps.ending;
  if (!plan.memory) next.memory = config.memory;
  settle(next, config.memory);
  if (plan.workers && next.workers > workers_at_start) {
    plan.takes_restart.push_back(
        fmt::format("workers: more than the {} it began with", workers_at_start));
    next.workers = workers_at_start;
  }
  for (const std::string& text : plan.engine.policies) {
    const auto [kind, policy] = engine::split_policy(text);
    check_policy(kind, policy);
  }
  return plan;
}

std::string Service::Parts::apply(const NodeConfig& wanted,
                                  const std::vector<Joining::Opened>& opened) {
  NodeConfig next = wanted;
  const ReloadPlan plan = planned(next);
  // From here on nothing can fail.
  if (plan.memory) {
    inbox.add(engine::CapacityChanged{{NodeId(0), Tier::dram, 0}, next.engine_bytes()});
    backend->set_memory(next.cache_bytes());
  }
  if (plan.workers) backend->set_workers_most(next.workers);
  plan.engine.tell(inbox);
  for (const NodeDataset& one : plan.removed) joining->remove(one);
  joining->serve(opened);
  for (const NodeDataset& one : plan.pipelines) {
    if (ServedDataset* served = datasets.find(std::string_view(one.name)))
      served->pipeline = one.pipeline;
  }
  for (const NodeDataset& one : plan.pins) {
    for (const std::string& name : served_names(one)) {
      if (ServedDataset* served = datasets.find(std::string_view(name)))
        joining->keep(*served, one.pin ? engine::Keep::always : engine::Keep::as_needed);
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

}  // namespace batchflow::service
