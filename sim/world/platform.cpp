#include "sim/world/platform.h"

#include <algorithm>
#include <cmath>

#include "sim/world/sim_time.h"
#include "sim/world/simgrid_api.h"

namespace batchflow::world {

namespace {

namespace s4u = simgrid_api::s4u;
using NetPoint = simgrid::kernel::routing::NetPoint;

constexpr double kUnlimited_bytes_per_s = 1e15;

// The rate of readers that have a drive alone. Each has the drive's `operations_ahead` under way,
// and each of these takes its latency and its bytes at the reader's rate. 0: no limit.
double alone_bytes_per_s(const input::DriveModel& drive, double operation_bytes, double latency_s,
                         const Platform::Amount& amount) {
  const std::uint64_t most =
      amount.ahead > 0 ? amount.ahead : std::uint64_t{drive.operations_ahead} * amount.readers;
  const auto ahead = static_cast<double>(std::min(most, amount.operations));
  const double cap = drive.reader_bytes_per_s * amount.readers;
  const double own = drive.reader_bytes_per_s;
  const double one_s = latency_s + (own > 0 ? operation_bytes / own : 0);
  if (one_s <= 0) return 0;
  const double rate = ahead * operation_bytes / one_s;
  return cap > 0 ? std::min(rate, cap) : rate;
}

// How many cores share the work of the node, if they share it.
double processors(const input::NodeModel& node) {
  if (node.processors > 0) return node.processors;
  return node.workers > 0 || node.workers_help ? node.cores : 0;
}

constexpr double kBeforeWorkers = 64;  // the weight of what is not preparation

Duration time_of(Bytes bytes, double ns_per_byte) {
  return duration_of(static_cast<double>(bytes) * ns_per_byte * 1e-9);
}

}  // namespace

Platform::Platform(Kernel& kernel, Tasks& tasks, Counters& counters,
                   const input::ClusterModel& cluster)
    : kernel_(kernel),
      tasks_(tasks),
      counters_(counters),
      cluster_(cluster),
      hardware_(cluster),
      speeds_(hardware_.count(), 1),
      wires_(hardware_.count()),
      store_(drive("store", cluster.store, hardware_.store())) {
  for (const input::NodeModel& node : cluster.nodes) {
    nodes_.push_back({nullptr,
                      drive(node.name + ".nvme", node.nvme_drive, hardware_.nvme(nodes_.size())),
                      server(node.name + ".memory", node.memory_bytes_per_s),
                      server(node.name + ".pcie", node.pcie_bytes_per_s),
                      server(node.name + ".cores", processors(node)), gpus_of(node)});
  }
  const auto limited = [&](const input::NodeModel& node) { return limits(node); };
  if (cluster.store_nic_bytes_per_s > 0 || link_limits(cluster.store_link) ||
      std::any_of(cluster.nodes.begin(), cluster.nodes.end(), limited)) {
    build_network();
  }
}

Server Platform::server(const std::string& name, double speed, std::uint32_t flows_most) {
  return Server(speed > 0 ? simgrid_api::add_host(kernel_.zone(), name, speed) : nullptr,
                flows_most);
}

std::vector<Platform::GpuPart> Platform::gpus_of(const input::NodeModel& node) {
  std::vector<GpuPart> gpus;
  const input::GpuModel& model = node.gpu;
  if (model.pcie_bytes_per_s == 0) return gpus;
  for (std::uint32_t i = 0; i < node.gpus; ++i) {
    const std::string name = node.name + ".gpu" + std::to_string(i);
    gpus.push_back({server(name + ".to", model.pcie_bytes_per_s, model.copy_engines),
                    server(name + ".from", model.pcie_bytes_per_s, model.copy_engines)});
  }
  return gpus;
}

// A drive's rate for all flows depends on their number, and on its present speed.
Platform::Drive Platform::drive(const std::string& name, const input::DriveModel& model,
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

void Platform::set_store_load(double part) {
  store_free_ = 1 - part;
  set_speed(hardware_.store(), store_factor_);
}

void Platform::set_speed(std::uint32_t hardware, double factor) {
  if (hardware == hardware_.store()) factor = (store_factor_ = factor) * store_free_;
  speeds_[hardware] = factor;
  if (hardware_.is_drive(hardware)) return kernel_.speeds_changed();
  Wire& wire = wires_[hardware];
  if (wire.link == nullptr) return;
  // SimGrid asks for it when the bandwidth itself changes: it becomes the next number up, and back.
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
    const input::LinkModel& model = cluster_.links[static_cast<std::size_t>(link)];
    if (model.bytes_per_s > 0 || model.latency.count() > 0) return true;
  }
  return false;
}

bool Platform::limits(const input::NodeModel& node) const {
  return node.nic_bytes_per_s > 0 || node.nic_latency.count() > 0 || link_limits(node.link);
}

// A host where the flows of one end begin and end, in the zone of that end.
s4u::Host* Platform::endpoint(s4u::NetZone& zone, const std::string& name,
                              const std::vector<s4u::LinkInRoute>& route) {
  s4u::Host* host = simgrid_api::add_host(zone, name + ".network", 1);
  simgrid_api::hang(zone, host->get_netpoint(), nullptr, route);
  return host;
}

s4u::LinkInRoute Platform::wire(std::uint32_t hardware, s4u::NetZone& zone, const std::string& name,
                                double bytes_per_s) {
  auto* link = simgrid_api::add_duplex_link(zone, name,
                                            bytes_per_s > 0 ? bytes_per_s : kUnlimited_bytes_per_s);
  // Latencies are waited for outside SimGrid, which shares a link by the round trips of its flows.
  link->set_latency(0);
  wires_[hardware] = {link, link->get_link_up()->get_bandwidth()};
  // Flows keep the bandwidth at their beginning as a bound. So a slow link keeps its bandwidth,
  // too, and shares out less of it.
  for (s4u::Link* way : {link->get_link_up(), link->get_link_down()}) {
    way->set_sharing_policy(
        s4u::Link::SharingPolicy::NONLINEAR,
        [&speed = speeds_[hardware]](double whole, int) { return whole * speed; });
  }
  return s4u::LinkInRoute(link, s4u::LinkInRoute::Direction::UP);
}

// A tree of stars: a zone holds all that is below a link, and lies within the zone of the link
// above; all meet in the outermost zone. SimGrid finds no route between a host and a zone beside
// it, so the hosts of a zone are in a zone of their own, which has the same middle.
class Platform::Tree {
 public:
  explicit Tree(Platform& platform)
      : platform_(platform),
        below_(platform.cluster_.links.size()),
        top_{&platform.kernel_.zone()} {}

  // The zone for hosts below the link; -1: the outermost zone.
  s4u::NetZone& hosts(int link) {
    End& end = end_of(link);
    if (end.hosts == nullptr) add_hosts(end, link < 0 ? "" : links()[index(link)].name);
    return *end.hosts;
  }

 private:
  struct End {
    s4u::NetZone* zone = nullptr;
    s4u::NetZone* hosts = nullptr;
    NetPoint* middle = nullptr;
  };
  static std::size_t index(int link) { return static_cast<std::size_t>(link); }
  const std::vector<input::LinkModel>& links() const { return platform_.cluster_.links; }

  End& end_of(int link) {
    if (link < 0) return top_;
    End& end = below_[index(link)];
    if (end.zone != nullptr) return end;
    const input::LinkModel& model = links()[index(link)];
    s4u::NetZone& above = *end_of(model.up).zone;
    end.zone = simgrid_api::add_zone(above, model.name + ".below");
    add_hosts(end, model.name);
    const s4u::LinkInRoute up = platform_.wire(platform_.hardware_.link(index(link)), above,
                                               model.name + ".link", model.bytes_per_s);
    simgrid_api::hang(above, end.zone->get_netpoint(), end.middle, {up});
    return end;
  }

  static void add_hosts(End& end, const std::string& name) {
    end.hosts = simgrid_api::add_zone(*end.zone, name + ".hosts");
    end.middle = simgrid_api::add_router(*end.hosts, name + ".middle");
    simgrid_api::hang(*end.hosts, end.middle, nullptr, {});
    simgrid_api::hang(*end.zone, end.hosts->get_netpoint(), end.middle, {});
  }

  Platform& platform_;
  std::vector<End> below_;
  End top_;
};

void Platform::build_network() {
  Tree tree(*this);
  for (std::size_t i = 0; i < cluster_.links.size(); ++i) tree.hosts(static_cast<int>(i));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const input::NodeModel& node = cluster_.nodes[i];
    s4u::NetZone& zone = tree.hosts(node.link);
    nodes_[i].endpoint = endpoint(
        zone, node.name, {wire(hardware_.nic(i), zone, node.name + ".nic", node.nic_bytes_per_s)});
  }
  // Where all nodes hang on one link, traffic between them does not go up it. No link carries all
  // of it, or each flow that comes or goes would make SimGrid share out all others again.
  const auto alike = [&](const input::NodeModel& node) {
    return node.link == cluster_.nodes[0].link;
  };
  const bool together = std::all_of(cluster_.nodes.begin(), cluster_.nodes.end(), alike);
  peers_endpoint_ = endpoint(tree.hosts(together ? cluster_.nodes[0].link : -1), "peers", {});
  s4u::NetZone& zone = tree.hosts(cluster_.store_link);
  store_endpoint_ =
      endpoint(zone, "store",
               {wire(hardware_.store_nic(), zone, "store.nic", cluster_.store_nic_bytes_per_s)});
}

// The latency of the links between two ends, each of which hangs on a link: up to where they meet,
// and down.
Duration Platform::latency(int from, int to) const {
  const auto depth = [&](int link) {
    int steps = 0;
    for (; link >= 0; link = cluster_.links[static_cast<std::size_t>(link)].up) ++steps;
    return steps;
  };
  Duration sum{0};
  while (from != to) {
    int& deeper = depth(from) >= depth(to) ? from : to;
    const input::LinkModel& link = cluster_.links[static_cast<std::size_t>(deeper)];
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

void Platform::read(TaskId task, Drive& drive, Amount amount, double weight, Random& chance) {
  if (amount.operations == 0 || amount.bytes == 0) return;
  const auto operations = static_cast<double>(amount.operations);
  const auto bytes = static_cast<double>(amount.bytes);
  const double each = bytes / operations;
  const input::DriveModel& model = drive.model;
  const auto pauses = static_cast<double>(model.pauses.count(chance, amount.operations));
  const double pause_s =
      pauses > 0 ? model.pauses.length_s * model.pauses.spread.draw(chance, pauses) : 0;
  const double latency_s = seconds(model.latency) * model.latency_spread.draw(chance, operations) +
                           pauses * pause_s / operations;
  const double alone = alone_bytes_per_s(model, each, latency_s, amount) * drive.speed;
  if (drive.metadata.limited()) tasks_.add_work(task, drive.metadata, {operations, 0, weight});
  // It does not depend on how many others go on meanwhile.
  if (pause_s > 0) tasks_.add_delay(task, duration_of(pause_s));
  if (drive.data.limited()) {
    const double efficiency = model.efficiency.empty() ? 1 : model.efficiency.at(each);
    tasks_.add_work(task, drive.data, {bytes / efficiency, alone / efficiency, weight});
  } else if (alone > 0) {
    tasks_.add_delay(task, duration_of(bytes / alone));
  }
}

// Some requests fail, some of these again, and so on. They are under way together, so the read
// waits as long as the unluckiest of them. No bytes come with a failure.
Duration Platform::requests_fail(Amount& amount, Random& chance) {
  const input::RequestModel& model = cluster_.store_requests;
  Duration waited{0};
  std::uint64_t again = amount.operations;
  const input::Pauses failures{model.failed, 0, {}};
  for (Duration wait = model.retry_after; again > 0 && model.failed > 0; wait *= 2) {
    again = failures.count(chance, again);
    if (again == 0) break;
    counters_.requests_again += again;
    waited += wait;
    if (wait > std::chrono::minutes(1)) wait = std::chrono::seconds(30);
  }
  return waited;
}

void Platform::write_store(TaskId task, std::size_t from_node, Bytes bytes) {
  Server& writes = store_.writes.limited() ? store_.writes : store_.data;
  if (writes.limited()) tasks_.add_work(task, writes, {static_cast<double>(bytes)});
  if (!store_is_remote(from_node)) return;
  const input::NodeModel& from = cluster_.nodes[from_node];
  tasks_.add_transfer(task, *nodes_[from_node].endpoint, *store_endpoint_,
                      static_cast<double>(bytes),
                      latency(from.link, cluster_.store_link) + from.nic_latency);
}

void Platform::work(TaskId task, std::size_t node, Duration core_time) {
  if (core_time.count() <= 0) return;
  if (cluster_.nodes[node].processors == 0) return tasks_.add_delay(task, core_time);
  tasks_.add_work(task, nodes_[node].cores, {seconds(core_time), 1, kBeforeWorkers});
}

void Platform::read_store(TaskId task, std::size_t to_node, Amount amount, Random chance) {
  counters_.store_requests += amount.operations;
  if (const Duration waits = requests_fail(amount, chance); waits.count() > 0)
    tasks_.add_delay(task, waits);
  read(task, store_, amount, cluster_.nodes[to_node].store_weight, chance);
  if (!store_is_remote(to_node)) return;
  const input::NodeModel& to = cluster_.nodes[to_node];
  tasks_.add_transfer(task, *store_endpoint_, *nodes_[to_node].endpoint,
                      static_cast<double>(amount.bytes),
                      latency(cluster_.store_link, to.link) + to.nic_latency);
}

void Platform::read_nvme(TaskId task, std::size_t node, Amount amount, Random chance) {
  read(task, nodes_[node].nvme, amount, 1, chance);
}

void Platform::write_nvme(TaskId task, std::size_t node, Bytes bytes) {
  Server& writes = nodes_[node].nvme.writes;
  if (writes.limited()) tasks_.add_work(task, writes, {static_cast<double>(bytes)});
}

void Platform::copy(TaskId task, std::size_t from_node, std::size_t to_node, Bytes bytes) {
  NodePart& from = nodes_[from_node];
  if (from_node != to_node) {
    const input::NodeModel& from_model = cluster_.nodes[from_node];
    const input::NodeModel& to_model = cluster_.nodes[to_node];
    work(task, from_node, time_of(bytes, from_model.overhead.send_ns_per_byte));
    work(task, to_node, time_of(bytes, to_model.overhead.receive_ns_per_byte));
    if (from.endpoint == nullptr) return;
    tasks_.add_transfer(
        task, *from.endpoint, *nodes_[to_node].endpoint, static_cast<double>(bytes),
        from_model.nic_latency + latency(from_model.link, to_model.link) + to_model.nic_latency);
  } else if (const input::NodeModel& node = cluster_.nodes[to_node];
             node.processors > 0 && node.memory_bytes_per_s > 0) {
    work(task, to_node, duration_of(static_cast<double>(bytes) / node.memory_bytes_per_s));
  } else if (from.memory.limited()) {
    tasks_.add_work(task, from.memory, {static_cast<double>(bytes)});
  }
}

void Platform::gather(TaskId task, std::size_t to_node, Bytes bytes) {
  work(task, to_node, time_of(bytes, cluster_.nodes[to_node].overhead.receive_ns_per_byte));
  if (peers_endpoint_ == nullptr) return;
  tasks_.add_transfer(task, *peers_endpoint_, *nodes_[to_node].endpoint, static_cast<double>(bytes),
                      2 * cluster_.nodes[to_node].nic_latency);
}

void Platform::prepare(TaskId task, std::size_t node, double core_s, std::uint32_t cores_most) {
  tasks_.add_work(task, nodes_[node].cores, {core_s, static_cast<double>(cores_most)});
}

void Platform::pass(TaskId task, Server& server, Bytes bytes) {
  if (server.limited()) tasks_.add_work(task, server, {static_cast<double>(bytes)});
}

void Platform::to_gpu(TaskId task, std::size_t node, std::size_t gpu, Bytes bytes) {
  pass(task, nodes_[node].pcie, bytes);
  if (gpu < nodes_[node].gpus.size()) pass(task, nodes_[node].gpus[gpu].to, bytes);
  counters_.pcie_bytes += bytes;
}

void Platform::from_gpu(TaskId task, std::size_t node, std::size_t gpu, Bytes bytes) {
  pass(task, nodes_[node].pcie, bytes);
  if (gpu < nodes_[node].gpus.size()) pass(task, nodes_[node].gpus[gpu].from, bytes);
  counters_.pcie_bytes += bytes;
}

}  // namespace batchflow::world
