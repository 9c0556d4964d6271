// The machines of a scenario as SimGrid knows them, and what it takes to move bytes through them.
//
// The store, drives, PCIe and memory are hosts whose speed is shared, with the curve that was
// measured for them; links carry what goes between nodes. A core and a GPU serve one at a time by
// the engine's own rules, so work on them is a delay and has no host. What has no rate in the
// scenario has no limit and is not there at all.
//
// A read of many operations is one flow: its bound is what one reader reaches with the operations
// it has under way, so that latency, read size and the cap of a client count without a flow for
// each operation.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "configs/reader/cluster_model.h"
#include "core/random.h"
#include "sim/world/errands.h"

namespace simgrid::s4u {
class LinkInRoute;
class SplitDuplexLink;
}  // namespace simgrid::s4u

namespace batchflow::sim {

// Names for all whose speed can change, by number.
class Hardware {
 public:
  explicit Hardware(const ClusterModel& cluster)
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
  Platform(Kernel& kernel, Errands& errands, const ClusterModel& cluster);
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;

  // What a person would call it: operations of bytes / operations each, by so many readers.
  struct Amount {
    std::uint64_t operations = 0;
    Bytes bytes = 0;
    std::uint32_t readers = 1;
  };
  // `chance` draws the tail of the latency.
  void read_store(ErrandId errand, std::size_t to_node, Amount amount, Random chance);
  void read_nvme(ErrandId errand, std::size_t node, Amount amount, Random chance);
  void write_nvme(ErrandId errand, std::size_t node, Bytes bytes);
  void copy(ErrandId errand, std::size_t from_node, std::size_t to_node, Bytes bytes);
  // From several nodes that each have a part of it: no limit at any one of them is met.
  void gather(ErrandId errand, std::size_t to_node, Bytes bytes);
  void to_gpu(ErrandId errand, std::size_t node, Bytes bytes);
  // On a node whose cores prepare together: so many seconds of one, on so many of them at most.
  void prepare(ErrandId errand, std::size_t node, double core_s, std::uint32_t cores_most);
  bool is_cores(const Server* server, std::size_t node) const {
    return server == &nodes_[node].cores;
  }
  bool is_store(const Server* server) const {
    return server == &store_.data || server == &store_.metadata;
  }

  // From now on so many times as fast as it was built, for all that is under way, too; but reads
  // that were begun before keep the latency, and the bound of one reader, that they have.
  void set_speed(std::uint32_t hardware, double factor);
  // The curve of the store in the scenario is another one. Reads under way keep the bound of one
  // reader that they began with.
  void store_changed() { kernel_.speeds_changed(); }

  // Whether anything on the way between the two limits them; else no bytes are counted there.
  bool store_is_remote(std::size_t node) const;

 private:
  struct Drive {
    const DriveModel& model;
    const double& speed;
    Server data;
    Server metadata;
    Server writes;
  };
  struct NodePart {
    simgrid::s4u::Host* endpoint = nullptr;
    Drive nvme;
    Server memory;
    Server pcie;
    Server cores;  // if they prepare together
  };

  class Tree;
  struct Wire {
    simgrid::s4u::SplitDuplexLink* link = nullptr;
    double bytes_per_s = 0;
    bool nudged = false;
  };

  Server server(const std::string& name, double speed);
  Drive drive(const std::string& name, const DriveModel& model, std::uint32_t hardware);
  void build_network();
  simgrid::s4u::Host* endpoint(simgrid::s4u::NetZone& zone, const std::string& name,
                               const std::vector<simgrid::s4u::LinkInRoute>& by);
  simgrid::s4u::LinkInRoute wire(std::uint32_t hardware, simgrid::s4u::NetZone& zone,
                                 const std::string& name, double bytes_per_s);
  void read(ErrandId errand, Drive& drive, Amount amount, double weight, Random& chance);
  Duration latency(int from_link, int to_link) const;
  bool limits(const NodeModel& node) const;
  bool link_limits(int link) const;

  Kernel& kernel_;
  Errands& errands_;
  const ClusterModel& cluster_;
  const Hardware hardware_;
  std::vector<double> speeds_;  // by number of the hardware; links and drives refer to theirs
  std::vector<Wire> wires_;     // by number of the hardware; none where there is no network
  Drive store_;
  simgrid::s4u::Host* store_endpoint_ = nullptr;
  simgrid::s4u::Host* peers_endpoint_ = nullptr;  // all nodes, as one that only they limit
  std::deque<NodePart> nodes_;                    // servers stay where they are
};

}  // namespace batchflow::sim
