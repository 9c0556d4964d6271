#include "runtime/service/service_reload.h"

#include <utility>

#include "runtime/service/control/node_memory.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {

namespace {

// The problems of what was opened; empty if all of it was opened.
std::string problems_of(const std::vector<DatasetOpenings::Opened>& opened) {
  std::string all;
  for (const DatasetOpenings::Opened& one : opened) {
    for (const OpenedIndex& part : one.parts) {
      if (!part.index)
        all += fmt::format("{}dataset {}: {}", all.empty() ? "" : "; ", part.name, part.problem);
    }
  }
  return all;
}

}  // namespace

void ServiceReload::reload(Done done) {
  asked_next_.push_back(std::move(done));
  if (!reloading_) begin();
}

void ServiceReload::begin() {
  reloading_ = true;
  asked_.swap(asked_next_);
  notify_manager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                             std::chrono::duration_cast<std::chrono::microseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count()));
  const auto attempt = [this](auto what) {
    try {
      if (parts_.draining) throw ConfigError("the service is draining");
      what();
    } catch (const std::exception& error) {
      end("", fmt::format("nothing changes: {}", error.what()));
    }
  };
  attempt([&] {
    if (!parts_.reread) return end("there is no file to read", "");
    const NodeConfig wanted = parts_.reread();
    NodeConfig next = wanted;
    parts_.joining->openings().open_unserved(
        planned(next).added,
        [this, attempt, wanted](const std::vector<DatasetOpenings::Opened>& opened) {
          attempt([&] {
            if (const std::string problem = problems_of(opened); !problem.empty())
              throw ConfigError(problem);
            end(apply(wanted, opened), "");
          });
        });
  });
}

void ServiceReload::end(const std::string& changed, const std::string& problem) {
  parts_.log.say({fmt::format("reload: {}", problem.empty() ? changed : problem),
                  problem.empty() ? LogLevel::info : LogLevel::error});
  if (!parts_.draining) notify_manager("READY=1\nSTATUS=serving");
  for (const Done& done : std::exchange(asked_, {}))
    if (done) done(changed, problem);
  reloading_ = false;
  if (!asked_next_.empty()) begin();
}

ReloadPlan ServiceReload::planned(NodeConfig& next) const {
  NodeConfig running = parts_.written;
  running.engine = parts_.config.engine;  // commands may have changed it
  ReloadPlan plan = plan_reload(running, next);
  next.storage = parts_.config.storage;
  next.spill = parts_.config.spill;
  next.scratch = parts_.config.scratch;
  next.steps_bytes = parts_.config.steps_bytes;
  next.data_bytes = parts_.config.data_bytes;
  next.steps.ending = parts_.config.steps.ending;
  next.steps.temporary = parts_.config.steps.temporary;
  if (!plan.memory) next.memory = parts_.config.memory;
  settle(next, parts_.config.memory);
  if (plan.workers && next.workers > parts_.workers_at_start) {
    plan.takes_restart.push_back(
        fmt::format("workers: more than the {} it began with", parts_.workers_at_start));
    next.workers = parts_.workers_at_start;
  }
  for (const std::string& text : plan.engine.policies) {
    const auto [kind, policy] = engine::split_policy(text);
    check_policy(kind, policy);
  }
  return plan;
}

std::string ServiceReload::apply(const NodeConfig& wanted,
                                 const std::vector<DatasetOpenings::Opened>& opened) {
  NodeConfig next = wanted;
  const ReloadPlan plan = planned(next);
  // From here on nothing can fail.
  if (plan.memory) {
    parts_.inbox.add(engine::CapacityChanged{{NodeId(0), Tier::dram, 0}, engine_bytes(next)});
    parts_.backend->set_memory(cache_bytes(next));
  }
  if (plan.workers) parts_.backend->set_workers_most(next.workers);
  plan.engine.tell(parts_.inbox);
  for (const NodeDataset& one : plan.removed) parts_.joining->openings().remove(one);
  parts_.joining->openings().serve(opened);
  for (const NodeDataset& one : plan.pipelines) {
    if (ServedDataset* served = parts_.datasets.find(std::string_view(one.name)))
      served->pipeline = one.pipeline;
  }
  for (const NodeDataset& one : plan.pins) {
    for (const std::string& name : served_names(one)) {
      if (ServedDataset* served = parts_.datasets.find(std::string_view(name)))
        parts_.joining->openings().keep(*served,
                                        one.pin ? engine::Keep::always : engine::Keep::as_needed);
    }
  }
  parts_.users.set(next.quotas);
  parts_.config.memory = next.memory;
  parts_.config.workers = next.workers;
  parts_.config.drain = next.drain;
  parts_.config.user_labels = next.user_labels;
  parts_.config.open_datasets = next.open_datasets;
  parts_.config.corrupt_ratio_allowed = next.corrupt_ratio_allowed;
  parts_.config.brought_kept = next.brought_kept;
  parts_.config.pipelines = next.pipelines;
  parts_.config.steps = next.steps;
  parts_.written = after_reload(parts_.written, wanted);
  parts_.config.engine = parts_.written.engine;
  parts_.jobs.set_options(Service::Parts::jobs_options(parts_.config));
  parts_.schedule();
  std::string result = plan.summary();
  for (const std::string& one : plan.takes_restart)
    result += fmt::format("; {}: takes a restart", one);
  return result;
}

}  // namespace batchflow::service
