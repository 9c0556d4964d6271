#include "tests/driver/room_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/driver/machine.h"

namespace batchflow::test {

namespace {

std::uint64_t ranks_on(const RoomCheck::Asked& job, NodeId node) {
  return static_cast<std::uint64_t>(std::count(job.ranks.begin(), job.ranks.end(), node));
}

std::set<NodeId> nodes_of(const RoomCheck::Asked& job) {
  return {job.ranks.begin(), job.ranks.end()};
}

// What it needs on the node with so many batches a rank, and a block to prepare in. What reads land
// in is for all jobs of the node.
unsigned __int128 needed(const RoomCheck::Asked& job, NodeId node, std::uint32_t credits) {
  return static_cast<unsigned __int128>(ranks_on(job, node)) * credits * job.slot() +
         (job.prepares ? job.block : 0);
}
unsigned __int128 least_needed(const RoomCheck::Asked& job, NodeId node) {
  return needed(job, node, 1);
}

bool has(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

std::uint32_t block_samples_of(const engine::EngineConfig& config, Bytes sample,
                               std::uint64_t samples) {
  const Bytes bytes = std::max<Bytes>(1, sample);
  std::uint64_t block = 1;
  // Of `block` and twice that, the nearer one; the greater if both are as near.
  while (block < 4096 && 2 * block * bytes <= config.block_bytes) block *= 2;
  if (block < 4096 && 2 * config.block_bytes >= 3 * block * bytes) block *= 2;
  while (block > 16 && (samples + block - 1) / block < config.blocks_least) block /= 2;
  return static_cast<std::uint32_t>(std::min(block, samples));
}

void RoomCheck::set_capacity(NodeId node, Bytes bytes) {
  Capacity& capacity = capacity_[node];
  capacity.least =
      capacity.changed ? std::min(capacity.least, bytes) : std::min(capacity.now, bytes);
  capacity.changed = true;
  capacity.now = bytes;
}

void RoomCheck::asks(Asked asked) {
  for (Asked& other : asked_) {
    if (other.job != asked.job) continue;
    asked.in_before = true;
    other.gone = true;
  }
  asked_.push_back(std::move(asked));
}

void RoomCheck::leaves(JobId job) {
  for (Asked& one : asked_) one.gone = one.gone || one.job == job;
}

void RoomCheck::clear() {
  asked_.clear();
  lost_.clear();
  capacity_.clear();
}

void RoomCheck::stepped() {
  std::erase_if(asked_, [](const Asked& one) { return one.gone; });
  for (Asked& one : asked_) {
    one.in_before = true;
    std::erase_if(one.ranks, [&](NodeId node) { return has(lost_, node); });
  }
  lost_.clear();
  for (auto& [node, capacity] : capacity_) capacity = {capacity.now, capacity.now, false};
}

// What it asks for now.
const RoomCheck::Asked& RoomCheck::asked(JobId job) const {
  const auto found = std::find_if(asked_.rbegin(), asked_.rend(),
                                  [&](const Asked& one) { return one.job == job; });
  if (found == asked_.rend()) violated("an answer to a job that did not ask");
  return *found;
}

Bytes RoomCheck::capacity(NodeId node) const {
  const auto found = capacity_.find(node);
  return found == capacity_.end() ? 0 : found->second.least;
}

// To all others at most, and to what reads of theirs and of this one land in.
unsigned __int128 RoomCheck::promised_most(NodeId node, const Asked& beside,
                                           const std::vector<Leftover>& leftovers) const {
  unsigned __int128 bytes = 0;
  std::map<std::vector<std::uint64_t>, Bytes> streams;  // a block of each
  Bytes staged = 0;
  for (const Asked& one : asked_) {
    if (one.prepares && one.stream != beside.stream) streams[one.stream] = one.block;
    if (one.prepares) staged = std::max(staged, one.staged);
    if (one.job == beside.job) continue;
    bytes += static_cast<unsigned __int128>(ranks_on(one, node)) * one.credits * one.slot();
  }
  bytes += staged;
  for (const Leftover& one : leftovers) {
    if (one.node == node) bytes += one.bytes;
  }
  for (const auto& [stream, block] : streams) bytes += block;
  return bytes;
}

bool RoomCheck::fits(const Asked& job, NodeId node, const std::vector<Leftover>& leftovers) const {
  return least_needed(job, node) + promised_most(node, job, leftovers) <= capacity(node);
}

// A node has become too small for what was promised of it: that may end jobs which were in.
bool RoomCheck::is_taken_back(const Asked& job, NodeId node,
                              const std::vector<Leftover>& leftovers) const {
  const auto found = capacity_.find(node);
  if (!job.in_before && (found == capacity_.end() || !found->second.changed)) return false;
  return needed(job, node, job.credits) + promised_most(node, job, leftovers) > capacity(node);
}

// Where no node of its ranks prepares, another one must have a slot for a block. Which of them may
// help is not known here unless all may.
bool RoomCheck::cannot_be_made(const Asked& job, const std::vector<Leftover>& leftovers,
                               const std::vector<NodeId>& preparing, std::uint32_t helpers) const {
  if (helpers == 0) return false;
  std::size_t with_room = 0;
  for (const NodeId node : preparing) {
    if (has(job.ranks, node)) return false;
    const unsigned __int128 block = job.block;
    with_room += block + promised_most(node, job, leftovers) <= capacity(node) ? 1 : 0;
  }
  const bool all_may = helpers >= capacity_.size();
  return !preparing.empty() && (all_may ? with_room == 0 : with_room < preparing.size());
}

void RoomCheck::check_refusal(JobId id, const std::vector<Leftover>& leftovers,
                              const std::vector<NodeId>& preparing, std::uint32_t helpers) const {
  const Asked& job = asked(id);
  for (const NodeId node : nodes_of(job)) {
    if (!fits(job, node, leftovers) || is_taken_back(job, node, leftovers)) return;
  }
  if (job.prepares && cannot_be_made(job, leftovers, preparing, helpers)) return;
  std::string text = fmt::format("job {} is refused for want of room there is:", id.value);
  for (const NodeId node : nodes_of(job)) {
    text += fmt::format(" node {}: {} B beside {} of {};", node.value,
                        static_cast<std::uint64_t>(least_needed(job, node)),
                        static_cast<std::uint64_t>(promised_most(node, job, leftovers)),
                        capacity(node));
  }
  violated(text);
}

// All that have been let in fit together, with all the credits they were given.
void RoomCheck::check_admission(JobId id, std::uint32_t credits) {
  for (Asked& one : asked_) {
    if (one.job != id || one.gone) continue;
    one.admitted = true;
    one.credits = credits;
  }
  for (const NodeId node : nodes_of(asked(id))) {
    unsigned __int128 bytes = 0;
    std::map<std::vector<std::uint64_t>, Bytes> streams;
    Bytes staged = 0;
    for (const Asked& one : asked_) {
      if (!one.admitted || one.gone || !has(one.ranks, node)) continue;
      bytes += static_cast<unsigned __int128>(ranks_on(one, node)) * one.credits * one.slot();
      if (!one.prepares) continue;
      streams[one.stream] = one.block;
      staged = std::max(staged, one.staged);
    }
    bytes += staged;
    for (const auto& [stream, block] : streams) bytes += block;
    const auto found = capacity_.find(node);
    if (found == capacity_.end() || found->second.changed || bytes <= found->second.now) continue;
    violated(fmt::format("job {} is let in, and {} B are promised of {} on node {}", id.value,
                         static_cast<std::uint64_t>(bytes), found->second.now, node.value));
  }
}

bool RoomCheck::fits_alone(JobId id, const std::vector<NodeId>& preparing) const {
  const Asked& job = asked(id);
  const Bytes staged = job.prepares ? job.staged : 0;
  const auto room = [&](NodeId node) {
    const auto found = capacity_.find(node);
    return found == capacity_.end() ? Bytes{0} : found->second.now;
  };
  for (const NodeId node : nodes_of(job)) {
    if (least_needed(job, node) + staged > room(node)) return false;
  }
  if (!job.prepares) return true;
  return std::any_of(preparing.begin(), preparing.end(), [&](NodeId node) {
    return has(job.ranks, node) || job.block + staged <= room(node);
  });
}

}  // namespace batchflow::test
