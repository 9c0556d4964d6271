#include "programs/input/fault_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "programs/input/scenario.h"

namespace batchflow::input {

namespace {

using Kind = FaultModel::Kind;
using Target = FaultModel::Target;

const std::vector<std::string_view> kKinds = {"node-lost",   "worker-lost",     "drive-lost",
                                              "drive-slow",  "link-down",       "link-slow",
                                              "worker-slow", "corrupt-samples", "reads-failed"};

struct Named {
  Target target;
  std::size_t index;
  std::string_view name;
};

// The parts of a scenario that a fault of this kind can strike.
std::vector<Named> targets(Kind kind, const Scenario& scenario) {
  std::vector<Named> all;
  if (kind == Kind::corrupt_samples) {
    for (std::size_t i = 0; i < scenario.datasets.size(); ++i) {
      all.push_back({Target::dataset, i, scenario.datasets[i].name});
    }
    return all;
  }
  const bool of_link = kind == Kind::link_down || kind == Kind::link_slow;
  const ClusterModel& cluster = scenario.cluster;
  for (std::size_t i = 0; of_link && i < cluster.links.size(); ++i) {
    all.push_back({Target::link, i, cluster.links[i].name});
  }
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    all.push_back({Target::node, i, cluster.nodes[i].name});
  }
  const bool of_drive =
      kind == Kind::drive_lost || kind == Kind::drive_slow || kind == Kind::reads_failed;
  if (of_link || of_drive) all.push_back({Target::store, 0, "store"});
  return all;
}

std::string_view what_to_name(Kind kind) {
  switch (kind) {
    case Kind::corrupt_samples:
      return "a dataset";
    case Kind::link_down:
    case Kind::link_slow:
      return "a link, or a node or `store` for its network card";
    case Kind::drive_lost:
    case Kind::drive_slow:
    case Kind::reads_failed:
      return "a node for its NVMe drive, or `store`";
    default:
      return "a node";
  }
}

void read_target(config::ConfigSection& section, const Scenario& scenario, FaultModel& fault) {
  section.require("target", fmt::format("the name of {}", what_to_name(fault.kind)));
  fault.name = section.text("target", "");
  const std::vector<Named> all = targets(fault.kind, scenario);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Named& named) { return named.name == fault.name; });
  if (found == all.end()) {
    std::vector<std::string_view> names;
    for (const Named& named : all) names.push_back(named.name);
    const std::string nearest = nearest_name(fault.name, names);
    section.refuse("target",
                   fmt::format("there is no '{}' for {} to strike", fault.name, fault.kind_name()),
                   nearest.empty() ? fmt::format("name {}", what_to_name(fault.kind))
                                   : fmt::format("write '{}'", nearest));
  }
  fault.target = found->target;
  fault.index = found->index;
}

void read_times(config::ConfigSection& section, const Scenario& scenario, FaultModel& fault) {
  fault.at = Instant(section.duration("at", Duration(0)));
  fault.lasts = section.duration("lasts", fault.lasts);
  if (section.has("until")) {
    const Instant until(section.duration("until", Duration(0)));
    if (section.has("lasts")) section.refuse("until", "its end is given twice", "leave out lasts");
    if (until <= fault.at) {
      section.refuse("until", "it ends before it begins", "write a time after `at`");
    }
    fault.lasts = until - fault.at;
  }
  if (scenario.ends_after.count() > 0 && fault.at >= Instant(scenario.ends_after)) {
    section.refuse("at", "the run ends before that", "write a time before ends_after");
  }
}

// The drive that is meant, if there is one.
const DriveModel& find_drive(config::ConfigSection& section, const Scenario& scenario,
                             const FaultModel& fault) {
  if (fault.target == Target::store) return scenario.cluster.store;
  const NodeModel& node = scenario.cluster.nodes[fault.index];
  if (node.nvme == 0) {
    section.refuse("target", fmt::format("node '{}' has no NVMe drive to cache on", node.name),
                   "name a node that has one, or `store`");
  }
  return node.nvme_drive;
}

void check_drive(config::ConfigSection& section, const Scenario& scenario,
                 const FaultModel& fault) {
  const DriveModel& drive = find_drive(section, scenario, fault);
  const bool limited = !drive.bytes_per_s.empty() || drive.reader_bytes_per_s > 0 ||
                       drive.latency.count() > 0 || drive.operations_per_s > 0;
  if (fault.kind == Kind::drive_slow && !limited) {
    section.refuse("target", "it has no limits that could be lowered",
                   "give it bytes_per_s or latency in the cluster");
  }
}

void check_link(config::ConfigSection& section, const Scenario& scenario, const FaultModel& fault) {
  const ClusterModel& cluster = scenario.cluster;
  const double rate = fault.target == Target::link    ? cluster.links[fault.index].bytes_per_s
                      : fault.target == Target::store ? cluster.store_nic_bytes_per_s
                                                      : cluster.nodes[fault.index].nic_bytes_per_s;
  if (fault.kind == Kind::link_slow && rate == 0) {
    section.refuse("target", "it has no limit that could be lowered",
                   fmt::format("give it {}bytes_per_s in the cluster",
                               fault.target == Target::link ? "" : "nic_"));
  }
}

void read_workers(config::ConfigSection& section, const Scenario& scenario, FaultModel& fault) {
  const NodeModel& node = scenario.cluster.nodes[fault.index];
  fault.count = static_cast<std::uint64_t>(section.integer("count", 1, 1));
  if (fault.count > node.cores) {
    section.refuse(
        "count",
        fmt::format("node '{}' has {} cores, and a worker for each at most", node.name, node.cores),
        "write no more");
  }
}

void read_samples(config::ConfigSection& section, const Scenario& scenario, FaultModel& fault) {
  const std::uint64_t samples = scenario.datasets[fault.index].samples;
  section.require("count", "how many of its samples");
  fault.count = static_cast<std::uint64_t>(section.integer("count", 1, 1));
  if (fault.count > samples) {
    section.refuse("count", fmt::format("the dataset has {} samples", samples), "write fewer");
  }
  if (scenario.grain.samples_per_item > 1) {
    section.refuse("kind", "samples are corrupt one by one, and items have more",
                   "write grain.samples_per_item: 1");
  }
}

}  // namespace

std::string_view FaultModel::kind_name() const {
  return kKinds[static_cast<std::size_t>(kind)];
}

FaultModel read_fault(config::ConfigSection& section, const Scenario& scenario) {
  FaultModel fault;
  section.require("kind", "what goes wrong, as node-lost");
  fault.kind = section.choice("kind", kKinds, fault.kind);
  read_target(section, scenario, fault);
  read_times(section, scenario, fault);
  switch (fault.kind) {
    case Kind::worker_lost:
      fault.quiet_after = section.duration("quiet_after", fault.quiet_after);
      [[fallthrough]];
    case Kind::node_lost:
      fault.detected_after = section.duration("detected_after", fault.detected_after);
      if (fault.kind == Kind::node_lost && fault.detected_after.count() > 0 &&
          scenario.after_loss == AfterLoss::moves) {
        section.refuse("detected_after", "jobs that move show at once that the node is lost",
                       "leave it out, or write after_loss: waits");
      }
      break;
    case Kind::drive_lost:
      find_drive(section, scenario, fault);
      if (fault.target != Target::store) break;
      [[fallthrough]];
    case Kind::link_down:
      fault.timeout = section.duration("timeout", fault.timeout);
      break;
    case Kind::drive_slow:
      check_drive(section, scenario, fault);
      break;
    case Kind::link_slow:
      check_link(section, scenario, fault);
      break;
    case Kind::worker_slow:
      break;
    case Kind::corrupt_samples:
      read_samples(section, scenario, fault);
      break;
    case Kind::reads_failed:
      find_drive(section, scenario, fault);
      section.require("ratio", "the part of reads that fail, as 1%");
      fault.ratio = section.ratio("ratio", fault.ratio);
      break;
  }
  if (fault.kind == Kind::worker_lost || fault.kind == Kind::worker_slow) {
    read_workers(section, scenario, fault);
  }
  if (fault.kind == Kind::drive_slow || fault.kind == Kind::link_slow ||
      fault.kind == Kind::worker_slow) {
    section.require("factor", "the factor of its speed, as 0.5");
    fault.factor = section.number("factor", 1, 1e-6, 1);
  }
  return fault;
}

}  // namespace batchflow::input
