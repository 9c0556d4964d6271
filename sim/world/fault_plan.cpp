#include "sim/world/fault_plan.h"

#include <algorithm>

#include "sim/world/gpu_queue.h"
#include "sim/world/platform.h"

namespace batchflow::world {

namespace {

using Kind = input::FaultModel::Kind;
using Target = input::FaultModel::Target;

// Workers begin within the first instant; a fault at the beginning strikes them right after it.
constexpr Instant kWorkersThere{Duration(1)};

Place drive_of(const input::FaultModel& model) {
  if (model.target == Target::store) return {NodeId::none(), Tier::store, 0};
  return {node_id(model.index), Tier::nvme, 0};
}

// Whether `link` is behind the link of that index, or is that link.
bool is_behind(const input::ClusterModel& cluster, int link, std::size_t index) {
  for (; link >= 0; link = cluster.links[static_cast<std::size_t>(link)].up) {
    if (static_cast<std::size_t>(link) == index) return true;
  }
  return false;
}

void cut(const input::FaultModel& model, const input::ClusterModel& cluster, faults::Fault& fault) {
  fault.kind = faults::Fault::Kind::cut_off;
  if (model.target == Target::node) fault.cut_nodes = {node_id(model.index)};
  fault.cut_stores = model.target == Target::store;
  if (model.target != Target::link) return;
  fault.cut_stores = is_behind(cluster, cluster.store_link, model.index);
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    if (is_behind(cluster, cluster.nodes[i].link, model.index))
      fault.cut_nodes.push_back(node_id(i));
  }
}

std::uint32_t slow_hardware(const input::FaultModel& model, const Hardware& hardware) {
  if (model.kind == Kind::drive_slow) {
    return model.target == Target::store ? hardware.store() : hardware.nvme(model.index);
  }
  return model.target == Target::link    ? hardware.link(model.index)
         : model.target == Target::store ? hardware.store_nic()
                                         : hardware.nic(model.index);
}

faults::Fault fault_of(const input::FaultModel& model, const input::Scenario& scenario,
                       const Workload& workload) {
  faults::Fault fault;
  fault.at = model.at;
  fault.lasts = model.lasts;
  fault.detected_after = model.detected_after;
  fault.quiet_after = model.quiet_after;
  fault.timeout = model.timeout;
  fault.factor = model.factor;
  fault.count = model.count;
  fault.ratio = model.ratio;
  if (model.target == Target::node) fault.node = node_id(model.index);
  switch (model.kind) {
    case Kind::node_lost:
      fault.kind = faults::Fault::Kind::node_lost;
      break;
    case Kind::worker_lost:
      fault.kind = faults::Fault::Kind::worker_lost;
      fault.at = std::max(fault.at, kWorkersThere);
      break;
    case Kind::worker_slow:
      fault.kind = faults::Fault::Kind::worker_slowed;
      fault.at = std::max(fault.at, kWorkersThere);
      break;
    case Kind::drive_lost:
      if (model.target == Target::store) {
        cut(model, scenario.cluster, fault);
      } else {
        fault.kind = faults::Fault::Kind::drive_lost;
        fault.place = drive_of(model);
      }
      break;
    case Kind::reads_failed:
      fault.kind = faults::Fault::Kind::reads_failed;
      fault.place = drive_of(model);
      break;
    case Kind::link_down:
      cut(model, scenario.cluster, fault);
      break;
    case Kind::drive_slow:
    case Kind::link_slow:
      fault.kind = faults::Fault::Kind::slowed;
      fault.hardware = slow_hardware(model, Hardware(scenario.cluster));
      break;
    case Kind::corrupt_samples:
      fault.kind = faults::Fault::Kind::samples_corrupt;
      fault.dataset = workload.datasets()[model.index].id;
      break;
  }
  return fault;
}

}  // namespace

std::vector<faults::Fault> fault_plan(const input::Scenario& scenario, const Workload& workload) {
  std::vector<faults::Fault> faults;
  for (const input::FaultModel& model : scenario.faults) {
    faults.push_back(fault_of(model, scenario, workload));
  }
  return faults;
}

}  // namespace batchflow::world
