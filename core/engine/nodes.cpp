#include "core/engine/nodes.h"

#include <utility>

#include "core/base/check.h"
#include "core/engine/books.h"

namespace batchflow::engine {

void Nodes::joined(const NodeJoined& event) {
  constexpr std::uint32_t kCoresMost = 1 << 16;  // no machine has more
  if (event.node.is_none() || event.cores > kCoresMost) return s_.protocol_error();
  if (s_.node_of.has(event.node)) return s_.protocol_error();
  const NodeIndex index = slot_for_node();
  s_.node_of.set(event.node, index);
  Node& node = s_.nodes[index];
  node = Node();
  node.id = event.node;
  node.cores = event.cores;
  node.joined = ++joined_;
  ++s_.nodes_changed;
  s_.changed_on(index);
}

// The slot of a node that is gone, once nothing under way refers to it.
NodeIndex Nodes::slot_for_node() {
  const auto is_free = [&](NodeIndex index) {
    const bool read_to = s_.reads.any([&](ReadIndex read) { return s_.reads[read].node == index; });
    return !read_to && s_.nodes[index].started == 0;
  };
  if (!lost_.empty() && is_free(lost_.back())) {
    const NodeIndex index = lost_.back();
    lost_.pop_back();
    return index;
  }
  return s_.nodes.add();
}

NodeIndex Nodes::quiesced(const NodeQuiesced& event) {
  const NodeIndex found = s_.node_of.find(event.node);
  if (found.is_none()) {
    s_.protocol_error();
    return found;
  }
  if (!std::exchange(s_.nodes[found].takes_work, false)) return NodeIndex::none();
  streams_.workers_gone();
  return found;
}

void Nodes::capacity_changed(const CapacityChanged& event) {
  if (event.place.tier != Tier::store && !s_.node_of.has(event.place.node)) {
    return s_.protocol_error();
  }
  const bool known = s_.memory.has(event.place);
  if (event.place.tier == Tier::gpu) {
    if (event.place.device >= kGpusMost) return s_.protocol_error();
    if (!known && event.bytes == 0) return;  // it keeps nothing
    std::uint16_t& gpus = s_.nodes[s_.node_of.at(event.place.node)].gpus;
    gpus = std::max<std::uint16_t>(gpus, event.place.device + 1);
  }
  const Bytes before = known ? s_.memory.capacity(event.place) : 0;
  const bool changed = !known || before != event.bytes;
  s_.memory.set_capacity(event.place, event.bytes);
  if (event.place.tier == Tier::dram) {
    const NodeIndex node = s_.node_of.at(event.place.node);
    s_.nodes[node].staging = &s_.memory.staging(dram_of(event.place.node));
    // One that was too small may be large enough now.
    streams_.node_changed(node, !known || event.bytes > before);
    s_.plan_staging(node);
  }
  if (changed && event.place.tier != Tier::store) item_shares_.capacity_changed(event.place);
  if (known) membership_.capacity_changed(event.place);
}

NodeIndex Nodes::lost(const NodeLost& event) {
  const NodeIndex node = s_.node_of.find(event.node);
  if (node.is_none()) {
    s_.protocol_error();
    return node;
  }
  streams_.workers_gone();
  s_.nodes[node].takes_work = false;
  s_.nodes[node].lost = true;
  membership_.lose_node(event.node);
  preparation_.lose_node(node);
  streams_.lose_node(event.node);
  item_shares_.close_shares(node);
  s_.nodes[node].staging = nullptr;
  s_.memory.forget_node(event.node);
  s_.node_of.erase(event.node);
  lost_.push_back(node);
  ++s_.nodes_changed;
  return node;
}

// A stream's helpers are always the first nodes that can prepare.
void Nodes::worker_joined(NodeId node) {
  if (!s_.node_of.has(node)) return;
  const NodeIndex index = s_.node_of.at(node);
  if (s_.nodes[index].staging == nullptr) return;
  streams_.node_changed(index, s_.nodes[index].workers == 1);
}

}  // namespace batchflow::engine
