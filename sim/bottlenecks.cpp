#include "sim/bottlenecks.h"

#include <fmt/format.h>

#include <algorithm>

#include "configs/reader/terminal.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

// What is 0 is no limit. True: there was one.
bool twice(double& rate) {
  rate *= 2;
  return rate > 0;
}

bool twice(DriveModel& drive) {
  for (Curve::Point& point : drive.bytes_per_s.points) point.y *= 2;
  bool any = !drive.bytes_per_s.empty();
  for (double* rate :
       {&drive.reader_bytes_per_s, &drive.write_bytes_per_s, &drive.operations_per_s}) {
    any = twice(*rate) || any;
  }
  return any;
}

bool twice_storage(Scenario& scenario) {
  return twice(scenario.cluster.store);
}

// Of nodes that keep something there.
bool twice_drives(Scenario& scenario) {
  bool any = false;
  for (NodeModel& node : scenario.cluster.nodes) {
    any = (node.nvme > 0 && twice(node.nvme_drive)) || any;
  }
  return any;
}

bool twice_cores(Scenario& scenario) {
  ClusterModel& cluster = scenario.cluster;
  for (NodeModel& node : cluster.nodes) node.cores *= 2;
  return true;
}

// Of a job that has its own.
bool twice_workers(Scenario& scenario) {
  scenario.engine.workers_per_rank *= 2;
  return scenario.engine.workers_per_rank > 0;
}

bool twice_cache(Scenario& scenario) {
  ClusterModel& cluster = scenario.cluster;
  for (NodeModel& node : cluster.nodes) {
    node.cache *= 2;
    node.nvme *= 2;
  }
  return true;
}

bool twice_network(Scenario& scenario) {
  ClusterModel& cluster = scenario.cluster;
  bool any = twice(cluster.store_nic_bytes_per_s);
  for (NodeModel& node : cluster.nodes) any = twice(node.nic_bytes_per_s) || any;
  for (LinkModel& link : cluster.links) any = twice(link.bytes_per_s) || any;
  return any;
}

// What batches go through within a node: its memory, and the way to its GPUs.
template <double NodeModel::*Rate>
bool twice_in_nodes(Scenario& scenario) {
  bool any = false;
  for (NodeModel& node : scenario.cluster.nodes) any = twice(node.*Rate) || any;
  return any;
}

constexpr std::pair<const char*, bool (*)(Scenario&)> kReliefs[] = {
    {"storage", twice_storage},
    {"drives", twice_drives},
    {"cores", twice_cores},
    {"workers", twice_workers},
    {"cache", twice_cache},
    {"network", twice_network},
    {"memory", twice_in_nodes<&NodeModel::memory_bytes_per_s>},
    {"pcie", twice_in_nodes<&NodeModel::pcie_bytes_per_s>}};

// By what was done in a second: a run that is cut takes as long with more of everything.
double speedup(double now_per_s, double then_per_s) {
  return now_per_s > 0 ? then_per_s / now_per_s : 1;
}

}  // namespace

std::vector<std::pair<std::string, Scenario>> relieved(const Scenario& scenario) {
  std::vector<std::pair<std::string, Scenario>> result;
  for (const auto& [name, change] : kReliefs) {
    Scenario more = scenario;
    if (change(more)) result.emplace_back(name, std::move(more));
  }
  return result;
}

Gain gain_of(const std::string& resource, const RunResult& run, const RunResult& relieved) {
  Gain gain;
  gain.resource = resource;
  gain.makespan_s = relieved.makespan_s;
  gain.samples_per_s = relieved.aggregate.samples_per_s;
  gain.speedup = speedup(run.aggregate.samples_per_s, gain.samples_per_s);
  for (std::size_t i = 0; i < run.jobs.size() && i < relieved.jobs.size(); ++i) {
    const JobResult& then = relieved.jobs[i];
    gain.jobs.push_back(
        {then.name, then.time_s, speedup(run.jobs[i].samples_per_s, then.samples_per_s)});
  }
  return gain;
}

std::string bottleneck_table(std::span<const RunResult> runs) {
  constexpr std::size_t kJobsMost = 40;
  std::string text;
  for (const RunResult& run : runs) {
    if (run.bottlenecks.empty()) continue;
    std::vector<std::vector<std::string>> rows{{"with twice the", "bounded by", "time"}};
    std::vector<std::string> all{"all jobs", "", time_text(run.makespan_s)};
    for (const Gain& gain : run.bottlenecks) {
      rows.front().push_back(gain.resource);
      all.push_back(fmt::format("{:.2f}x", gain.speedup));
    }
    rows.push_back(std::move(all));
    for (std::size_t j = 0; j < std::min(run.jobs.size(), kJobsMost); ++j) {
      const JobResult& job = run.jobs[j];
      std::vector<std::string> row{printable(job.name), job.bottleneck, time_text(job.time_s)};
      for (const Gain& gain : run.bottlenecks) {
        row.push_back(j < gain.jobs.size() ? fmt::format("{:.2f}x", gain.jobs[j].speedup) : "-");
      }
      rows.push_back(std::move(row));
    }
    text += "\n" + (runs.size() > 1 ? run_name(run) + "\n" : "") + aligned(rows);
    if (run.jobs.size() > kJobsMost) {
      text += fmt::format("... and {} more jobs; --json lists all\n", run.jobs.size() - kJobsMost);
    }
  }
  return text;
}

}  // namespace batchflow::sim
