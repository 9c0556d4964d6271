#include "core/engine/node_ranking.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace batchflow::engine {

const std::vector<std::uint32_t>& NodeRanking::of(std::uint32_t dataset) {
  if (ranked_.size() <= dataset) ranked_.resize(dataset + 1);
  Ranked& ranked = ranked_[dataset];
  std::vector<std::uint32_t>& nodes = ranked.nodes;
  if (std::exchange(ranked.as_of, s_.nodes_changed) == s_.nodes_changed) return nodes;
  nodes.clear();
  for (std::uint32_t index = 0; index < s_.nodes.size(); ++index) {
    if (!s_.nodes[index].lost) nodes.push_back(index);
  }
  const Digest version = s_.datasets[dataset].catalogue->version();
  const auto score = [&](std::uint32_t index) {
    const NodeId node = s_.nodes[index].id;
    return std::tuple(hash(version, node.value), node);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](std::uint32_t a, std::uint32_t b) { return score(a) < score(b); });
  return nodes;
}

}  // namespace batchflow::engine
