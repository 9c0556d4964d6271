#include "core/engine/node_ranking.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace batchflow::engine {

const std::vector<NodeIndex>& NodeRanking::ranked_nodes(DatasetIndex dataset) {
  if (ranked_.size() <= dataset.value) ranked_.resize(dataset.value + 1);
  Ranked& ranked = ranked_[dataset.value];
  std::vector<NodeIndex>& nodes = ranked.nodes;
  if (std::exchange(ranked.as_of, s_.nodes_changed) == s_.nodes_changed) return nodes;
  nodes.clear();
  s_.nodes.each([&](NodeIndex index) {
    if (!s_.nodes[index].lost) nodes.push_back(index);
  });
  const Digest version = s_.datasets[dataset].catalogue->version();
  const auto score = [&](NodeIndex index) {
    const NodeId node = s_.nodes[index].id;
    return std::tuple(hash(version, node.value), node);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](NodeIndex a, NodeIndex b) { return score(a) < score(b); });
  return nodes;
}

}  // namespace batchflow::engine
