#include "sim/world/platform.h"

#include <algorithm>
#include <cmath>

#include "sim/world/sim_time.h"
#include "sim/world/simgrid_api.h"

namespace batchflow::sim {

namespace {

namespace s4u = simgrid_api::s4u;
using NetPoint = simgrid::kernel::routing::NetPoint;

constexpr double kUnlimited_bytes_per_s = 1e15;

// What readers get when nobody else reads: so many operations under way each, each with its latency
// and its bytes at the reader's rate. 0: no limit.
double alone_bytes_per_s(const DriveModel& drive, double operation_bytes, double latency_s,
                         const Platform::Amount& amount) {
  const auto ahead = static_cast<double>(std::min<std::uint64_t>(
      std::uint64_t{drive.operations_ahead} * amount.readers, amount.operations));
  const double cap = drive.reader_bytes_per_s * amount.readers;
  const double own = drive.reader_bytes_per_s;
  const double one_s = latency_s + (own > 0 ? operation_bytes / own : 0);
  if (one_s <= 0) return 0;
  const double rate = ahead * operation_bytes / one_s;
  return cap > 0 ? std::min(rate, cap) : rate;
}

}  // namespace

Platform::Platform(Kernel& kernel, Errands& errands, const ClusterModel& cluster)
    : kernel_(kernel),
      errands_(errands),
      cluster_(cluster),
      hardware_(cluster),
      speeds_(hardware_.count(), 1),
      wires_(hardware_.count()),
      store_(drive("store", cluster.store, hardware_.store())) {
  for (const NodeModel& node : cluster.nodes) {
    nodes_.push_back({nullptr,
                      drive(node.name + ".nvme", node.nvme_drive, hardware_.nvme(nodes_.size())),
                      server(node.name + ".memory", node.memory_bytes_per_s),
                      server(node.name + ".pcie", node.pcie_bytes_per_s),
                      server(node.name + ".cores", node.workers > 0 ? node.cores : 0)});
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

// What it can do for all depends on how many there are, and on how well it is.
Platform::Drive Platform::drive(const std::string& name, const DriveModel& model,
                                std::uint32_t hardware) {
  const double& speed = speeds_[hardware];
  Drive drive{model, speed, Server(), Server(), Server()};
  const auto add = [&](const std::string& part, double most, auto speed_for) {
    s4u::Host* host = simgrid_api::add_host(kernel_.zone(), part, most);
    host->set_sharing_policy(s4u::Host::SharingPolicy::NONLINEAR, speed_for);
    return Server(host);
  };
  if (model.operations_per_s > 0) {
    drive.metadata = add(name + ".metadata", model.operations_per_s,
                         [&](double whole, int) { return whole * speed; });
  }
  if (model.write_bytes_per_s > 0) {
    drive.writes = add(name + ".writes", model.write_bytes_per_s,
                       [&](double whole, int) { return whole * speed; });
  }
  if (!model.bytes_per_s.empty()) {
    drive.data = add(name, model.bytes_per_s.points.back().y,
                     [&](double, int readers) { return model.bytes_per_s.at(readers) * speed; });
  }
  return drive;
}

void Platform::set_speed(std::uint32_t hardware, double factor) {
  speeds_[hardware] = factor;
  if (hardware_.is_drive(hardware)) return kernel_.speeds_changed();
  Wire& wire = wires_[hardware];
  if (wire.link == nullptr) return;
  // SimGrid asks for it when the bandwidth itself is another: the next number up, and back.
  wire.nudged = !wire.nudged;
  const double bandwidth =
      wire.nudged ? std::nextafter(wire.bytes_per_s, 2 * wire.bytes_per_s) : wire.bytes_per_s;
  for (s4u::Link* way : {wire.link->get_link_up(), wire.link->get_link_down()}) {
    way->set_bandwidth(bandwidth);
  }
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
  const auto connect = [&](std::uint32_t hardware, const std::string& name, NetPoint* below,
                           NetPoint* above, double bytes_per_s) {
    auto* link = simgrid_api::add_duplex_link(
        zone, name, bytes_per_s > 0 ? bytes_per_s : kUnlimited_bytes_per_s);
    // Latencies are waited for beside SimGrid, which shares a link by the round trips of its flows.
    link->set_latency(0);
    wires_[hardware] = {link, link->get_link_up()->get_bandwidth()};
    // Flows keep the bandwidth at their beginning as a bound, so a slow link has it, too, and
    // shares out less of it.
    for (s4u::Link* way : {link->get_link_up(), link->get_link_down()}) {
      way->set_sharing_policy(
          s4u::Link::SharingPolicy::NONLINEAR,
          [&speed = speeds_[hardware]](double whole, int) { return whole * speed; });
    }
    const s4u::LinkInRoute up(link, s4u::LinkInRoute::Direction::UP);
    simgrid_api::add_route(zone, below, above, up);
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const LinkModel& link = cluster_.links[i];
    connect(hardware_.link(i), link.name + ".link", ends[i], end_of(link.up), link.bytes_per_s);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeModel& node = cluster_.nodes[i];
    nodes_[i].endpoint = endpoint(node.name);
    connect(hardware_.nic(i), node.name + ".nic", nodes_[i].endpoint->get_netpoint(),
            end_of(node.link), node.nic_bytes_per_s);
  }
  // Where all nodes hang on one link, what goes between them does not go up it.
  const auto alike = [&](const NodeModel& node) { return node.link == cluster_.nodes[0].link; };
  const bool together = std::all_of(cluster_.nodes.begin(), cluster_.nodes.end(), alike);
  peers_endpoint_ = endpoint("peers");
  auto* peers = simgrid_api::add_duplex_link(zone, "peers.nic", kUnlimited_bytes_per_s);
  peers->set_latency(0);
  simgrid_api::add_route(zone, peers_endpoint_->get_netpoint(),
                         end_of(together ? cluster_.nodes[0].link : -1),
                         s4u::LinkInRoute(peers, s4u::LinkInRoute::Direction::UP));
  store_endpoint_ = endpoint("store");
  connect(hardware_.store_nic(), "store.nic", store_endpoint_->get_netpoint(),
          end_of(cluster_.store_link), cluster_.store_nic_bytes_per_s);
}

// Of the links between two ends, each of which hangs on one: up to where they meet, and down.
Duration Platform::latency(int from, int to) const {
  const auto depth = [&](int link) {
    int steps = 0;
    for (; link >= 0; link = cluster_.links[static_cast<std::size_t>(link)].up) ++steps;
    return steps;
  };
  Duration sum{0};
  while (from != to) {
    int& deeper = depth(from) >= depth(to) ? from : to;
    const LinkModel& link = cluster_.links[static_cast<std::size_t>(deeper)];
    sum += link.latency;
    deeper = link.up;
  }
  return sum;
}

bool Platform::store_is_remote(std::size_t node) const {
  return store_endpoint_ != nullptr &&
         (cluster_.store_nic_bytes_per_s > 0 || link_limits(cluster_.store_link) ||
          limits(cluster_.nodes[node]));
}

// ----------------------------------------------------------------------------------- bytes ----

void Platform::read(ErrandId errand, Drive& drive, Amount amount, double weight, Random& chance) {
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
  const double alone = alone_bytes_per_s(model, each, latency_s, amount) * drive.speed;
  if (drive.metadata.limited()) errands_.add_work(errand, drive.metadata, {operations, 0, weight});
  // However many others go on meanwhile.
  if (pause_s > 0) errands_.add_delay(errand, duration_of(pause_s));
  if (drive.data.limited()) {
    const double efficiency = model.efficiency.empty() ? 1 : model.efficiency.at(each);
    errands_.add_work(errand, drive.data, {bytes / efficiency, alone / efficiency, weight});
  } else if (alone > 0) {
    errands_.add_delay(errand, duration_of(bytes / alone));
  }
}

void Platform::read_store(ErrandId errand, std::size_t to_node, Amount amount, Random chance) {
  read(errand, store_, amount, cluster_.nodes[to_node].store_weight, chance);
  if (!store_is_remote(to_node)) return;
  const NodeModel& to = cluster_.nodes[to_node];
  errands_.add_transfer(errand, *store_endpoint_, *nodes_[to_node].endpoint,
                        static_cast<double>(amount.bytes),
                        latency(cluster_.store_link, to.link) + to.nic_latency);
}

void Platform::read_nvme(ErrandId errand, std::size_t node, Amount amount, Random chance) {
  read(errand, nodes_[node].nvme, amount, 1, chance);
}

void Platform::write_nvme(ErrandId errand, std::size_t node, Bytes bytes) {
  Server& writes = nodes_[node].nvme.writes;
  if (writes.limited()) errands_.add_work(errand, writes, {static_cast<double>(bytes)});
}

void Platform::copy(ErrandId errand, std::size_t from_node, std::size_t to_node, Bytes bytes) {
  NodePart& from = nodes_[from_node];
  if (from_node != to_node) {
    if (from.endpoint == nullptr) return;
    const NodeModel& one = cluster_.nodes[from_node];
    const NodeModel& other = cluster_.nodes[to_node];
    errands_.add_transfer(errand, *from.endpoint, *nodes_[to_node].endpoint,
                          static_cast<double>(bytes),
                          one.nic_latency + latency(one.link, other.link) + other.nic_latency);
  } else if (from.memory.limited()) {
    errands_.add_work(errand, from.memory, {static_cast<double>(bytes)});
  }
}

void Platform::gather(ErrandId errand, std::size_t to_node, Bytes bytes) {
  if (peers_endpoint_ == nullptr) return;
  errands_.add_transfer(errand, *peers_endpoint_, *nodes_[to_node].endpoint,
                        static_cast<double>(bytes), 2 * cluster_.nodes[to_node].nic_latency);
}

void Platform::prepare(ErrandId errand, std::size_t node, double core_s, std::uint32_t cores_most) {
  errands_.add_work(errand, nodes_[node].cores, {core_s, static_cast<double>(cores_most)});
}

void Platform::to_gpu(ErrandId errand, std::size_t node, Bytes bytes) {
  Server& pcie = nodes_[node].pcie;
  if (pcie.limited()) errands_.add_work(errand, pcie, {static_cast<double>(bytes)});
}

}  // namespace batchflow::sim
