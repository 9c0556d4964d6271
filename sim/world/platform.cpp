#include "sim/world/platform.h"

#include <algorithm>

#include "sim/world/sim_time.h"
#include "sim/world/simgrid_api.h"

namespace batchflow::sim {

namespace {

namespace s4u = simgrid_api::s4u;
using NetPoint = simgrid::kernel::routing::NetPoint;

constexpr double kUnlimited_bytes_per_s = 1e15;

// What one reader gets when nobody else reads: so many operations under way, each with its latency
// and its bytes at the reader's rate. 0: no limit.
double alone_bytes_per_s(const DriveModel& drive, double operation_bytes, double latency_s,
                         std::uint64_t operations) {
  const auto ahead =
      static_cast<double>(std::min<std::uint64_t>(drive.operations_ahead, operations));
  const double cap = drive.reader_bytes_per_s;
  const double one_s = latency_s + (cap > 0 ? operation_bytes / cap : 0);
  if (one_s <= 0) return 0;
  const double rate = ahead * operation_bytes / one_s;
  return cap > 0 ? std::min(rate, cap) : rate;
}

}  // namespace

Platform::Platform(Kernel& kernel, Errands& errands, const ClusterModel& cluster)
    : kernel_(kernel), errands_(errands), cluster_(cluster), store_(drive("store", cluster.store)) {
  for (const NodeModel& node : cluster.nodes) {
    nodes_.push_back({nullptr, drive(node.name + ".nvme", node.nvme_drive),
                      server(node.name + ".memory", node.memory_bytes_per_s),
                      server(node.name + ".pcie", node.pcie_bytes_per_s)});
  }
  const auto limited = [&](const NodeModel& node) { return limits(node); };
  if (cluster.store_nic_bytes_per_s > 0 || link_limits(cluster.store_link) ||
      std::any_of(cluster.nodes.begin(), cluster.nodes.end(), limited)) {
    build_network();
  }
}

Server Platform::server(const std::string& name, double speed) {
  return Server(speed > 0 ? simgrid_api::add_host(kernel_.zone(), name, speed) : nullptr);
}

Platform::Drive Platform::drive(const std::string& name, const DriveModel& model) {
  Drive drive{model, Server(), server(name + ".metadata", model.operations_per_s)};
  if (model.bytes_per_s.empty()) return drive;
  s4u::Host* host = simgrid_api::add_host(kernel_.zone(), name, model.bytes_per_s.points.back().y);
  if (model.bytes_per_s.points.size() > 1) {
    host->set_sharing_policy(s4u::Host::SharingPolicy::NONLINEAR, [&model](double, int readers) {
      return model.bytes_per_s.at(readers);
    });
  }
  drive.data = Server(host);
  return drive;
}

// --------------------------------------------------------------------------------- network ----

bool Platform::link_limits(int link) const {
  for (; link >= 0; link = cluster_.links[static_cast<std::size_t>(link)].up) {
    const LinkModel& model = cluster_.links[static_cast<std::size_t>(link)];
    if (model.bytes_per_s > 0 || model.latency.count() > 0) return true;
  }
  return false;
}

bool Platform::limits(const NodeModel& node) const {
  return node.nic_bytes_per_s > 0 || node.nic_latency.count() > 0 || link_limits(node.link);
}

s4u::Host* Platform::endpoint(const std::string& name) {
  return simgrid_api::add_host(kernel_.zone(), name + ".network", 1);
}

// A tree: each link leads up to another or to the root, where all meet; network cards hang on it.
void Platform::build_network() {
  s4u::NetZone& zone = kernel_.zone();
  NetPoint* root = simgrid_api::add_router(zone, "root");
  std::vector<NetPoint*> ends;
  for (const LinkModel& link : cluster_.links) {
    ends.push_back(simgrid_api::add_router(zone, link.name + ".end"));
  }
  const auto end_of = [&](int link) {
    return link < 0 ? root : ends[static_cast<std::size_t>(link)];
  };
  const auto connect = [&](const std::string& name, NetPoint* below, NetPoint* above,
                           double bytes_per_s, Duration latency) {
    auto* link = simgrid_api::add_duplex_link(
        zone, name, bytes_per_s > 0 ? bytes_per_s : kUnlimited_bytes_per_s);
    link->set_latency(seconds(latency));
    const s4u::LinkInRoute up(link, s4u::LinkInRoute::Direction::UP);
    simgrid_api::add_route(zone, below, above, up);
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const LinkModel& link = cluster_.links[i];
    connect(link.name + ".link", ends[i], end_of(link.up), link.bytes_per_s, link.latency);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeModel& node = cluster_.nodes[i];
    nodes_[i].endpoint = endpoint(node.name);
    connect(node.name + ".nic", nodes_[i].endpoint->get_netpoint(), end_of(node.link),
            node.nic_bytes_per_s, node.nic_latency);
  }
  store_endpoint_ = endpoint("store");
  connect("store.nic", store_endpoint_->get_netpoint(), end_of(cluster_.store_link),
          cluster_.store_nic_bytes_per_s, Duration(0));
}

bool Platform::store_is_remote(std::size_t node) const {
  return store_endpoint_ != nullptr &&
         (cluster_.store_nic_bytes_per_s > 0 || link_limits(cluster_.store_link) ||
          limits(cluster_.nodes[node]));
}

// ----------------------------------------------------------------------------------- bytes ----

void Platform::read(ErrandId errand, Drive& drive, Amount amount, Random& chance) {
  if (amount.operations == 0 || amount.bytes == 0) return;
  const auto operations = static_cast<double>(amount.operations);
  const auto bytes = static_cast<double>(amount.bytes);
  const double each = bytes / operations;
  const DriveModel& model = drive.model;
  const auto pauses = static_cast<double>(model.pauses.count(chance, amount.operations));
  const double pause_s =
      pauses > 0 ? model.pauses.length_s * model.pauses.spread.draw(chance, pauses) : 0;
  const double latency_s = seconds(model.latency) * model.latency_spread.draw(chance, operations) +
                           pauses * pause_s / operations;
  const double alone = alone_bytes_per_s(model, each, latency_s, amount.operations);
  if (drive.metadata.limited()) errands_.add_work(errand, drive.metadata, operations, 0);
  // However many others go on meanwhile.
  if (pause_s > 0) errands_.add_delay(errand, duration_of(pause_s));
  if (drive.data.limited()) {
    const double efficiency = model.efficiency.empty() ? 1 : model.efficiency.at(each);
    errands_.add_work(errand, drive.data, bytes / efficiency, alone / efficiency);
  } else if (alone > 0) {
    errands_.add_delay(errand, duration_of(bytes / alone));
  }
}

void Platform::read_store(ErrandId errand, std::size_t to_node, Amount amount, Random chance) {
  read(errand, store_, amount, chance);
  if (!store_is_remote(to_node)) return;
  errands_.add_transfer(errand, *store_endpoint_, *nodes_[to_node].endpoint,
                        static_cast<double>(amount.bytes));
}

void Platform::read_nvme(ErrandId errand, std::size_t node, Amount amount, Random chance) {
  read(errand, nodes_[node].nvme, amount, chance);
}

void Platform::copy(ErrandId errand, std::size_t from_node, std::size_t to_node, Bytes bytes) {
  NodePart& from = nodes_[from_node];
  if (from_node != to_node) {
    if (from.endpoint == nullptr) return;
    errands_.add_transfer(errand, *from.endpoint, *nodes_[to_node].endpoint,
                          static_cast<double>(bytes));
  } else if (from.memory.limited()) {
    errands_.add_work(errand, from.memory, static_cast<double>(bytes), 0);
  }
}

void Platform::to_gpu(ErrandId errand, std::size_t node, Bytes bytes) {
  Server& pcie = nodes_[node].pcie;
  if (pcie.limited()) errands_.add_work(errand, pcie, static_cast<double>(bytes), 0);
}

}  // namespace batchflow::sim
