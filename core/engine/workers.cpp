// Workers that come and go, and upkeep beside the making of blocks.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/preparation.h"

namespace batchflow::engine {

void Preparation::joined(const WorkerJoined& event) {
  const std::uint32_t node = s_.node_of.find(event.node.value);
  if (node == kNone) return s_.protocol_error();
  if (const auto known = s_.worker_of.find(event.worker.value); known != s_.worker_of.end()) {
    if (s_.workers[known->second].state != Worker::State::lost) return s_.protocol_error();
  }
  if (s_.quiet_workers.empty()) {
    s_.quiet_workers.push_back(static_cast<std::uint32_t>(s_.workers.size()));
    s_.workers.emplace_back();
  }
  const std::uint32_t index = s_.quiet_workers.back();
  s_.quiet_workers.pop_back();
  s_.workers[index] = {event.worker, node, Worker::State::idle, kNone, {}};
  s_.worker_of[event.worker.value] = index;
  s_.nodes[node].staff.push_back(index);
  s_.nodes[node].idle.push_back(index);
  ++s_.nodes[node].workers;
  s_.plan_staging(node);
  s_.room_on(node);
  assign(node);
}

void Preparation::lost(const WorkerLost& event) {
  const auto found = s_.worker_of.find(event.worker.value);
  if (found == s_.worker_of.end()) return s_.protocol_error();
  Worker& worker = s_.workers[found->second];
  if (worker.state == Worker::State::lost) return s_.protocol_error();
  Node& node = s_.nodes[worker.node];
  std::erase(node.idle, found->second);
  --node.workers;
  s_.plan_staging(worker.node);
  s_.changed_on(worker.node);
  std::uint32_t making = worker.making;
  worker.state = Worker::State::lost;
  worker.making = kNone;
  if (making == kNone) return;
  if (!s_.makings[making].preparing) {
    // It only waited for reads: another worker takes its place.
    s_.makings[making].worker = kNone;
    return;
  }
  if (const std::uint32_t twin = s_.makings[making].twin; twin != kNone) {
    // The other one of the two may still make the block.
    if (!s_.makings[making].second) {
      use_second(twin);
      making = twin;
    }
    worker.making = kNone;
  }
  abort(making);
}

void Preparation::quiesced(const WorkerQuiesced& event) {
  const auto found = s_.worker_of.find(event.worker.value);
  if (found == s_.worker_of.end()) return s_.protocol_error();
  const std::uint32_t index = found->second;
  Worker& worker = s_.workers[index];
  if (worker.state != Worker::State::lost) lost({event.worker});
  for (const Resident& slot : worker.quarantine) {
    const SharePart& part = s_.memory[slot.share];
    s_.order(Drop{part.id, part.spec.place, Form::prepared, slot.item, slot.slot});
    s_.memory.give_back(slot.share, slot.item);
  }
  worker.quarantine.clear();
  std::erase(s_.nodes[worker.node].staff, index);
  forget_worker(index);
  s_.room_everywhere();
}

// Nothing refers to the worker any more.
void Preparation::forget_worker(std::uint32_t index) {
  Worker& worker = s_.workers[index];
  worker.state = Worker::State::quiesced;
  worker.making = kNone;
  const auto known = s_.worker_of.find(worker.id.value);
  if (known != s_.worker_of.end() && known->second == index) s_.worker_of.erase(known);
  s_.quiet_workers.push_back(index);
}

void Preparation::abandon(std::uint32_t stream) {
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (!s_.makings.live(index)) continue;
    Making& making = s_.makings[index];
    if (s_.blocks[making.block].stream != stream) continue;
    if (!making.preparing) {
      abort(index);
    } else if (!std::exchange(making.cancelled, true)) {
      s_.order(Cancel{s_.requests.latest(making.request)});
    }
  }
}

void Preparation::lose_node(std::uint32_t node_index) {
  for (const std::uint32_t worker : s_.nodes[node_index].staff) {
    s_.workers[worker].state = Worker::State::quiesced;
  }
  reads_.lose_node(node_index, s_.nodes[node_index].id);
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (s_.makings.live(index) && s_.makings[index].node == node_index) abort(index);
  }
  Node& node = s_.nodes[node_index];
  node.idle.clear();
  node.ready.clear();
  node.unstaged.clear();
  node.workers = 0;
  for (const std::uint32_t index : node.staff) {
    Worker& worker = s_.workers[index];
    // Nothing on a lost node writes anywhere any more.
    for (const Resident& slot : worker.quarantine) s_.memory.give_back(slot.share, slot.item);
    worker.quarantine.clear();
    forget_worker(index);
  }
  node.staff.clear();
}

// ------------------------------------------------------------------------------------ upkeep ----

// Whether the block is among those that the job may take next. If the job has taken it, begun
// batches are being copied from it. If the job may not take it yet, a block that failed or was lost
// must be made before.
bool Preparation::may_take(const Stream& stream, const Job& job, const Block& block) {
  if (block.ref.is_none() || job.member.is_none()) return false;
  stream.lanes->candidates(job.member, candidates_);
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [&](const order::Lanes::Candidate& one) { return one.block == block.ref; });
}

bool Preparation::settle_current() {
  bool changed = false;
  resident_.clear();
  for (const std::uint32_t index : s_.current_blocks) {
    if (s_.blocks[index].resident) resident_.push_back(index);
  }
  for (const std::uint32_t index : resident_) {
    Block& block = s_.blocks[index];
    if (block.transfers > 0) continue;
    Stream& stream = s_.streams[block.stream];
    Job& job = s_.jobs[block.charged_job];
    // A block that was taken and is gone comes first: earlier steps wait for it.
    if (job.waits == Job::Waits::to_take && !job.lost_grants && may_take(stream, job, block))
      continue;
    const bool room = room_ahead(s_, node_of(stream, block.node));
    if (room && job.ahead < quota(s_, stream, job) && block.grants > 0) {
      lift_charge(s_, block);
      charge(s_, index, Charge::ahead, job);
    } else {
      uncharge(s_, block);
    }
    changed = true;
  }
  return changed;
}

void Preparation::orphan(Job& job) {
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (s_.makings.live(index) && s_.makings[index].job == job.index) {
      s_.makings[index].job = kNone;
    }
  }
  job.makings = 0;
  while (!job.charged.empty()) {
    Block& block = s_.blocks[job.charged.back()];
    if (block.resident) {
      uncharge(s_, block);
    } else if (block.charge == Charge::ahead) {
      disown(s_, block);
    } else {
      // It is being made for a job that is gone: it goes on as work ahead for any job that needs
      // it.
      lift_charge(s_, block);
      block.charge = Charge::ahead;
      ++node_of(s_.streams[block.stream], block.node).ahead;
    }
  }
}

void Preparation::strip_ahead(std::span<const Place> places) {
  for (const Place& place : places) {
    const std::uint32_t node = s_.node_of.find(place.node.value);
    if (node == kNone || place.tier != Tier::dram) continue;
    for (const std::uint32_t stream : s_.nodes[node].streams) {
      strip_ahead(node_of(s_.streams[stream], place.node));
    }
  }
}

// Blocks that no job has taken come first.
void Preparation::strip_ahead(StreamNode& part) {
  if (part.ahead == 0) return;
  const SharePart& share = s_.memory[part.share];
  const Slots room = share.target > part.reserve + 1 ? share.target - part.reserve - 1 : 0;
  for (const bool taken : {false, true}) {
    for (const std::uint32_t owner : share.owner_of) {
      if (part.ahead <= room) return;
      if (owner == kNone || !s_.blocks.live(owner)) continue;
      Block& block = s_.blocks[owner];
      if (!block.resident || block.charge != Charge::ahead) continue;
      if ((block.grants > 0) == taken) uncharge(s_, block);
    }
  }
}

}  // namespace batchflow::engine
