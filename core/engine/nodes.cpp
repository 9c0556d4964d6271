// Nodes that join, quiesce and are lost, and what streams have on them.
#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/membership.h"

namespace batchflow::engine {

void Membership::node_joined(const NodeJoined& event) {
  constexpr std::uint32_t kCoresMost = 1 << 16;  // no machine has more
  if (event.node.is_none() || event.cores > kCoresMost) return s_.protocol_error();
  if (s_.node_of.has(event.node.value)) return s_.protocol_error();
  const std::uint32_t index = slot_for_node();
  s_.node_of.set(event.node.value, index);
  Node& node = s_.nodes[index];
  node = Node();
  node.id = event.node;
  node.cores = event.cores;
  node.joined = ++s_.nodes_joined;
  ++s_.nodes_changed;
  s_.changed_on(index);
}

// The slot of a node that is gone, once nothing under way refers to it.
std::uint32_t Membership::slot_for_node() {
  const auto is_free = [&](std::uint32_t index) {
    for (std::uint32_t read = 0; read < s_.reads.size(); ++read) {
      if (s_.reads.live(read) && s_.reads[read].node == index) return false;
    }
    return s_.nodes[index].started == 0;
  };
  if (!s_.lost_nodes.empty() && is_free(s_.lost_nodes.back())) {
    const std::uint32_t index = s_.lost_nodes.back();
    s_.lost_nodes.pop_back();
    return index;
  }
  s_.nodes.emplace_back();
  return static_cast<std::uint32_t>(s_.nodes.size() - 1);
}

void Membership::node_quiesced(const NodeQuiesced& event) {
  const std::uint32_t found = s_.node_of.find(event.node.value);
  if (found == kNone) return s_.protocol_error();
  s_.nodes[found].takes_work = false;
  stranded_due_ = true;
}

// A stream's helpers are always the first nodes that can prepare.
void Membership::worker_joined(NodeId node) {
  if (!s_.node_of.has(node.value)) return;
  const std::uint32_t index = s_.node_of.at(node.value);
  if (!s_.nodes[index].has_memory) return;
  helpers_due_ = helpers_due_ || s_.nodes[index].workers == 1;
  standby_nodes_.push_back(index);
}

void Membership::capacity_changed(const CapacityChanged& event) {
  if (event.place.tier != Tier::store && !s_.node_of.has(event.place.node.value)) {
    return s_.protocol_error();
  }
  const bool known = s_.memory.has(event.place);
  const bool changed = !known || s_.memory.capacity(event.place) != event.bytes;
  s_.memory.set_capacity(event.place, event.bytes);
  if (event.place.tier == Tier::dram) {
    s_.nodes[s_.node_of.at(event.place.node.value)].has_memory = true;
    standby_nodes_.push_back(s_.node_of.at(event.place.node.value));
    s_.plan_staging(s_.node_of.at(event.place.node.value));
    helpers_due_ = helpers_due_ || !known;
  }
  const bool keeps = event.place.tier == Tier::dram || event.place.tier == Tier::nvme;
  if (changed && keeps) items_.capacity_changed(event.place);
  if (known && !keep_promises(event.place)) over_promised_.push_back(event.place);
}

// Gives up what the job had on a node that is gone.
void Membership::forget_node(Job& job, NodeId node) {
  delivery_.abandon_node(job, node);
  std::erase_if(job.reserved, [&](const Job::Reserved& reserved) { return reserved.node == node; });
  std::erase_if(job.listed, [&](const Job::Listed& one) { return one.node == node; });
  holders_.erase({node, job.serial});
  for (auto* shares : {&job.batch_shares, &job.retired_shares}) {
    for (const std::uint32_t share : *shares) {
      if (s_.memory[share].spec.place.node == node) s_.memory.remove_share(share);
    }
    std::erase_if(*shares, [&](std::uint32_t share) { return !s_.memory.live(share); });
  }
}

void Membership::node_lost(const NodeLost& event) {
  const std::uint32_t node = s_.node_of.find(event.node.value);
  if (node == kNone) return s_.protocol_error();
  stranded_due_ = true;
  s_.nodes[node].takes_work = false;
  s_.nodes[node].lost = true;
  for (std::uint32_t index = 0; index < s_.jobs.size(); ++index) {
    if (!s_.jobs.live(index)) continue;
    for (Rank rank = 0; rank < s_.jobs[index].ranks.size(); ++rank) {
      RankState& state = s_.jobs[index].ranks[rank];
      if (state.node == event.node && !state.lost) rank_lost(s_.jobs[index], rank);
    }
  }
  for (std::uint32_t index = 0; index < s_.jobs.size(); ++index) {
    if (s_.jobs.live(index)) forget_node(s_.jobs[index], event.node);
  }
  preparation_.lose_node(node);
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    Stream& stream = s_.streams[index];
    lose_blocks(stream, event.node);
    for (const StreamNode& part : stream.nodes) {
      if (part.node == event.node) s_.memory.remove_share(part.share);
    }
    std::erase_if(stream.nodes, [&](const StreamNode& part) { return part.node == event.node; });
  }
  s_.nodes[node].streams.clear();
  items_.close_shares(node);
  s_.memory.forget_node(event.node);
  s_.node_of.erase(event.node.value);
  s_.lost_nodes.push_back(node);
  ++s_.nodes_changed;
}

void Membership::close_if_empty(std::uint32_t index) {
  Stream& stream = s_.streams[index];
  if (!stream.jobs.empty()) return;
  preparation_.abandon(index);
  // The stream no longer needs help: the slots promised for that are free for others at once.
  for (StreamNode& part : stream.nodes) {
    part.standby = false;
    keep_promise(s_, part);
  }
  if (std::find(closing_.begin(), closing_.end(), index) == closing_.end())
    closing_.push_back(index);
}

// True: the stream is gone, or in use again.
bool Membership::try_free(std::uint32_t index) {
  Stream& stream = s_.streams[index];
  if (!stream.jobs.empty()) return true;
  bool busy = false;
  for (const StreamNode& part : stream.nodes) {
    drop_unused(stream, part);
    busy = busy || s_.memory[part.share].share->used() > 0;
  }
  if (busy) return false;
  for (const StreamNode& part : stream.nodes) {
    s_.memory.remove_share(part.share);
    std::erase(s_.nodes[part.index].streams, index);
  }
  std::erase(s_.datasets[stream.dataset].streams, index);
  s_.streams.release(index);
  return true;
}

// Drops blocks of a stream without jobs that nothing uses, as far as this step may drop any.
void Membership::drop_unused(Stream& stream, const StreamNode& part) {
  const SharePart& share = s_.memory[part.share];
  for (;;) {
    const ItemId item = share.share->lowest_unpinned();
    if (item.is_none()) return;
    if (drops_left_ == 0) return s_.alarms.set(s_.now, {});
    --drops_left_;
    const std::uint32_t owner = share.owner_of[item.value];
    s_.order(Drop{share.id, share.spec.place, Form::prepared, item, s_.blocks[owner].slot});
    drop_block(stream, owner);
  }
}

// Loses all blocks of the stream that were on a lost node.
void Membership::lose_blocks(Stream& stream, NodeId node) {
  bool any = false;
  for (const StreamNode& part : stream.nodes) {
    if (part.node != node) continue;
    for (const std::uint32_t owner : s_.memory[part.share].owner_of) {
      if (owner == kNone || !s_.blocks.live(owner) || !s_.blocks[owner].resident) continue;
      delivery_.lost_block({owner, s_.blocks[owner].serial});
      lift_charge(s_, s_.blocks[owner]);
      drop_block(stream, owner);
      any = true;
    }
  }
  for (const std::uint32_t job : stream.jobs) {
    if (any) s_.touch(job);
  }
}

void Membership::drop_block(Stream& stream, std::uint32_t index) {
  const Block& block = s_.blocks[index];
  if (!block.ref.is_none() && stream.lanes->valid(block.ref)) {
    stream.lanes->for_each_needing(
        block.ref, [&](order::MemberId member) { s_.touch(stream.lanes->tag(member)); });
    stream.lanes->dropped(block.ref);
  }
  s_.memory.give_back(block.share, block.item);
  s_.blocks.release(index);
}

}  // namespace batchflow::engine
