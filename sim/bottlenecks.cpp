#include "sim/bottlenecks.h"

#include <fmt/format.h>

#include <algorithm>

#include "programs/output/terminal.h"
#include "sim/numbers.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

// 0 means no limit and stays. True: there was a limit.
bool double_rate(double& rate) {
  rate *= 2;
  return rate > 0;
}

bool double_rate(input::DriveModel& drive) {
  for (input::Curve::Point& point : drive.bytes_per_s.points) point.y *= 2;
  bool any = !drive.bytes_per_s.empty();
  for (double* rate :
       {&drive.reader_bytes_per_s, &drive.write_bytes_per_s, &drive.operations_per_s}) {
    any = double_rate(*rate) || any;
  }
  return any;
}

bool double_storage(input::Scenario& scenario) {
  return double_rate(scenario.cluster.store);
}

// The drives of all nodes that keep something on them.
bool double_drives(input::Scenario& scenario) {
  bool any = false;
  for (input::NodeModel& node : scenario.cluster.nodes) {
    any = (node.nvme > 0 && double_rate(node.nvme_drive)) || any;
  }
  return any;
}

bool double_cores(input::Scenario& scenario) {
  input::ClusterModel& cluster = scenario.cluster;
  for (input::NodeModel& node : cluster.nodes) node.cores *= 2;
  return true;
}

// The workers of all jobs that have their own.
bool double_workers(input::Scenario& scenario) {
  scenario.engine.workers_per_rank *= 2;
  return scenario.engine.workers_per_rank > 0;
}

bool double_cache(input::Scenario& scenario) {
  input::ClusterModel& cluster = scenario.cluster;
  for (input::NodeModel& node : cluster.nodes) {
    node.cache *= 2;
    node.nvme *= 2;
    node.gpu.cache *= 2;
  }
  return true;
}

bool double_network(input::Scenario& scenario) {
  input::ClusterModel& cluster = scenario.cluster;
  bool any = double_rate(cluster.store_nic_bytes_per_s);
  for (input::NodeModel& node : cluster.nodes) any = double_rate(node.nic_bytes_per_s) || any;
  for (input::LinkModel& link : cluster.links) any = double_rate(link.bytes_per_s) || any;
  return any;
}

// What batches go through within a node: its memory, and the links to its GPUs.
template <double input::NodeModel::*Rate>
bool double_in_nodes(input::Scenario& scenario) {
  bool any = false;
  for (input::NodeModel& node : scenario.cluster.nodes) any = double_rate(node.*Rate) || any;
  return any;
}

// The links of a node to all of its GPUs, and of each GPU.
bool double_pcie(input::Scenario& scenario) {
  bool any = double_in_nodes<&input::NodeModel::pcie_bytes_per_s>(scenario);
  for (input::NodeModel& node : scenario.cluster.nodes)
    any = double_rate(node.gpu.pcie_bytes_per_s) || any;
  return any;
}

constexpr std::pair<const char*, bool (*)(input::Scenario&)> kDoublings[] = {
    {"storage", double_storage},
    {"drives", double_drives},
    {"cores", double_cores},
    {"workers", double_workers},
    {"cache", double_cache},
    {"network", double_network},
    {"memory", double_in_nodes<&input::NodeModel::memory_bytes_per_s>},
    {"pcie", double_pcie}};

// By the work done in a second, because a run that is cut takes as long with more of everything.
double speedup(double now_per_s, double then_per_s) {
  return now_per_s > 0 ? then_per_s / now_per_s : 1;
}

}  // namespace

std::vector<std::pair<std::string, input::Scenario>> with_double_resources(
    const input::Scenario& scenario) {
  std::vector<std::pair<std::string, input::Scenario>> result;
  for (const auto& [name, change] : kDoublings) {
    input::Scenario more = scenario;
    if (change(more)) result.emplace_back(name, std::move(more));
  }
  return result;
}

output::Gain gain_of(const std::string& resource, const output::RunResult& run,
                     const output::RunResult& doubled) {
  output::Gain gain;
  gain.resource = resource;
  gain.makespan_s = doubled.makespan_s;
  gain.samples_per_s = doubled.aggregate.samples_per_s;
  gain.speedup = speedup(run.aggregate.samples_per_s, gain.samples_per_s);
  for (std::size_t i = 0; i < run.jobs.size() && i < doubled.jobs.size(); ++i) {
    const output::JobResult& then = doubled.jobs[i];
    gain.jobs.push_back(
        {then.name, then.time_s, speedup(run.jobs[i].samples_per_s, then.samples_per_s)});
  }
  return gain;
}

std::string bottleneck_table(std::span<const output::RunResult> runs) {
  constexpr std::size_t kJobsMost = 40;
  std::string text;
  for (const output::RunResult& run : runs) {
    if (run.bottlenecks.empty()) continue;
    std::vector<std::vector<std::string>> rows{{"with twice the", "bounded by", "time"}};
    std::vector<std::string> all{"all jobs", "", time_text(run.makespan_s)};
    for (const output::Gain& gain : run.bottlenecks) {
      rows.front().push_back(gain.resource);
      all.push_back(fmt::format("{:.2f}x", gain.speedup));
    }
    rows.push_back(std::move(all));
    for (std::size_t j = 0; j < std::min(run.jobs.size(), kJobsMost); ++j) {
      const output::JobResult& job = run.jobs[j];
      std::vector<std::string> row{output::printable(job.name), job.bottleneck,
                                   time_text(job.time_s)};
      for (const output::Gain& gain : run.bottlenecks) {
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
