// The machines of a scenario as SimGrid knows them, and what it takes to move bytes through them.
//
// The store, drives, PCIe and memory are hosts that share their speed, with the curve that was
// measured for them; links carry the traffic between nodes. A core and a GPU serve one job at a
// time by the engine's own rules, so work on them is a delay and has no host. What has no rate in
// the scenario has no limit and no host.
//
// A read of many operations is one flow. Its bound is what one reader reaches with the operations
// that it has under way, so that latency, read size and the cap of a client count without a flow
// for each operation.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "programs/input/cluster_model.h"
#include "sim/world/counters.h"
#include "sim/world/tasks.h"

namespace simgrid::s4u {
class LinkInRoute;
class SplitDuplexLink;
}  // namespace simgrid::s4u

namespace batchflow::world {

// Numbers all hardware with a speed that can change.
class Hardware {
 public:
  explicit Hardware(const input::ClusterModel& cluster)
      : nodes_(static_cast<std::uint32_t>(cluster.nodes.size())),
        links_(static_cast<std::uint32_t>(cluster.links.size())) {}
  std::uint32_t store() const { return 0; }
  std::uint32_t nvme(std::size_t node) const { return 1 + static_cast<std::uint32_t>(node); }
  std::uint32_t store_nic() const { return 1 + nodes_; }
  std::uint32_t nic(std::size_t node) const {
    return 1 + store_nic() + static_cast<std::uint32_t>(node);
  }
  std::uint32_t link(std::size_t link) const {
    return nic(nodes_) + static_cast<std::uint32_t>(link);
  }
  bool is_drive(std::uint32_t number) const { return number <= nodes_; }
  std::size_t count() const { return link(links_); }

 private:
  std::uint32_t nodes_;
  std::uint32_t links_;
};

class Platform {
 public:
  // `cluster` outlives it.
  Platform(Kernel& kernel, Tasks& tasks, Counters& counters, const input::ClusterModel& cluster);
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;

  // How much `readers` read: operations of bytes / operations each.
  struct Amount {
    std::uint64_t operations = 0;
    Bytes bytes = 0;
    std::uint32_t readers = 1;
    std::uint32_t ahead = 0;  // operations that they have under way at once; 0: the drive's, each
  };
  // `chance` draws the tail of the latency.
  void read_store(TaskId task, std::size_t to_node, Amount amount, Random chance);
  void read_nvme(TaskId task, std::size_t node, Amount amount, Random chance);
  void write_nvme(TaskId task, std::size_t node, Bytes bytes);
  void write_store(TaskId task, std::size_t from_node, Bytes bytes);
  void copy(TaskId task, std::size_t from_node, std::size_t to_node, Bytes bytes);
  // From several nodes that each have a part of it: the limits of single nodes do not count.
  void gather(TaskId task, std::size_t to_node, Bytes bytes);
  // To a GPU of the node from its memory, and back.
  void to_gpu(TaskId task, std::size_t node, std::size_t gpu, Bytes bytes);
  void from_gpu(TaskId task, std::size_t node, std::size_t gpu, Bytes bytes);
  // What takes a core for so long, beside preparation: of the node's processors where it has them.
  void work(TaskId task, std::size_t node, Duration core_time);
  // On a node with cores that prepare together, or are shared with others: `core_s` seconds of one
  // core, on `cores_most` at most. All else that takes a processor comes first, as in the service:
  // its workers have a lower priority.
  void prepare(TaskId task, std::size_t node, double core_s, std::uint32_t cores_most);
  bool is_cores(const Server* server, std::size_t node) const {
    return server == &nodes_[node].cores;
  }
  bool is_store(const Server* server) const {
    return server == &store_.data || server == &store_.metadata;
  }

  // From now on the hardware is `factor` times as fast as it was built; for all that is under way,
  // too. But a read that began before keeps its latency, and the bound of one reader.
  void set_speed(std::uint32_t hardware, double factor);
  // From now on others take this part of the store.
  void set_store_load(double part);
  // The curve of the store in the scenario has changed. A read under way keeps the bound of one
  // reader that it began with.
  void store_changed() { kernel_.speeds_changed(); }

  // Whether anything between the store and the node limits reads; if not, no bytes are counted
  // there.
  bool store_is_remote(std::size_t node) const;

 private:
  struct Drive {
    const input::DriveModel& model;
    const double& speed;
    Server data;
    Server metadata;
    Server writes;
  };
  struct GpuPart {
    Server to;
    Server from;
  };
  struct NodePart {
    simgrid::s4u::Host* endpoint = nullptr;
    Drive nvme;
    Server memory;
    Server pcie;
    Server cores;               // if they prepare together
    std::vector<GpuPart> gpus;  // where a scenario says something of them
  };

  class Tree;
  struct Wire {
    simgrid::s4u::SplitDuplexLink* link = nullptr;
    double bytes_per_s = 0;
    bool nudged = false;  // its rate is the next number above
  };

  Server server(const std::string& name, double speed,
                std::uint32_t flows_most = Server::kFlowsMost);
  std::vector<GpuPart> gpus_of(const input::NodeModel& node);
  void pass(TaskId task, Server& server, Bytes bytes);
  Drive drive(const std::string& name, const input::DriveModel& model, std::uint32_t hardware);
  void build_network();
  simgrid::s4u::Host* endpoint(simgrid::s4u::NetZone& zone, const std::string& name,
                               const std::vector<simgrid::s4u::LinkInRoute>& route);
  simgrid::s4u::LinkInRoute wire(std::uint32_t hardware, simgrid::s4u::NetZone& zone,
                                 const std::string& name, double bytes_per_s);
  void read(TaskId task, Drive& drive, Amount amount, double weight, Random& chance);
  Duration requests_fail(Amount& amount, Random& chance);
  Duration latency(int from_link, int to_link) const;
  bool limits(const input::NodeModel& node) const;
  bool link_limits(int link) const;

  Kernel& kernel_;
  Tasks& tasks_;
  Counters& counters_;
  const input::ClusterModel& cluster_;
  const Hardware hardware_;
  double store_factor_ = 1;     // by set_speed
  double store_free_ = 1;       // of others' load
  std::vector<double> speeds_;  // by number of the hardware; links and drives refer to theirs
  std::vector<Wire> wires_;     // by number of the hardware; empty where there is no network
  Drive store_;
  simgrid::s4u::Host* store_endpoint_ = nullptr;
  simgrid::s4u::Host* peers_endpoint_ = nullptr;  // all nodes, as one end that only they limit
  std::deque<NodePart> nodes_;                    // a deque, so that servers stay in place
};

}  // namespace batchflow::world
