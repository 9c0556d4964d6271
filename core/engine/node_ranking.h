// In which order nodes are asked to serve a dataset.
//
// It is the same for all streams of a dataset, and is found as the homes of samples are: a node
// that leaves does not change the order of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class NodeRanking {
 public:
  explicit NodeRanking(const EngineState& state) : s_(state) {}

  // Nodes that `may` serve, until there are enough. `enough(index)`: no more are needed, not even
  // this one.
  template <class May, class Enough>
  std::vector<NodeId> first(DatasetIndex dataset, May may, Enough enough) {
    std::vector<NodeIndex> chosen;
    for (const NodeIndex index : ranked_nodes(dataset)) {
      const Node& node = s_.nodes[index];
      if (!node.takes_work || node.staging == nullptr || !may(node)) continue;
      if (enough(index)) break;
      chosen.push_back(index);
    }
    // So that the nodes of a small cluster stand in the order in which they joined.
    s_.sort_by_joining(chosen);
    std::vector<NodeId> nodes;
    for (const NodeIndex index : chosen) nodes.push_back(s_.nodes[index].id);
    return nodes;
  }

 private:
  const std::vector<NodeIndex>& ranked_nodes(DatasetIndex dataset);

  const EngineState& s_;
  // For each dataset: all nodes by their scores for it, brought up to date when they are asked for.
  struct Ranked {
    std::uint64_t as_of = 0;  // EngineState::nodes_changed
    std::vector<NodeIndex> nodes;
  };
  std::vector<Ranked> ranked_;
};

}  // namespace batchflow::engine
