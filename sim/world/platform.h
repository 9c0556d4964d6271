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

#include <deque>
#include <string>
#include <vector>

#include "configs/reader/cluster_model.h"
#include "core/random.h"
#include "sim/world/errands.h"

namespace batchflow::sim {

class Platform {
 public:
  // `cluster` outlives it.
  Platform(Kernel& kernel, Errands& errands, const ClusterModel& cluster);

  // What a person would call it: operations of bytes / operations each.
  struct Amount {
    std::uint64_t operations;
    Bytes bytes;
  };
  // `chance` draws the tail of the latency.
  void read_store(ErrandId errand, std::size_t to_node, Amount amount, Random chance);
  void read_nvme(ErrandId errand, std::size_t node, Amount amount, Random chance);
  void copy(ErrandId errand, std::size_t from_node, std::size_t to_node, Bytes bytes);
  void to_gpu(ErrandId errand, std::size_t node, Bytes bytes);

  // Whether anything on the way between the two limits them; else no bytes are counted there.
  bool store_is_remote(std::size_t node) const;

 private:
  struct Drive {
    const DriveModel& model;
    Server data;
    Server metadata;
  };
  struct NodePart {
    simgrid::s4u::Host* endpoint = nullptr;
    Drive nvme;
    Server memory;
    Server pcie;
  };

  Server server(const std::string& name, double speed);
  Drive drive(const std::string& name, const DriveModel& model);
  void build_network();
  simgrid::s4u::Host* endpoint(const std::string& name);
  void read(ErrandId errand, Drive& drive, Amount amount, Random& chance);
  bool limits(const NodeModel& node) const;
  bool link_limits(int link) const;

  Kernel& kernel_;
  Errands& errands_;
  const ClusterModel& cluster_;
  Drive store_;
  simgrid::s4u::Host* store_endpoint_ = nullptr;
  std::deque<NodePart> nodes_;  // servers stay where they are
};

}  // namespace batchflow::sim
