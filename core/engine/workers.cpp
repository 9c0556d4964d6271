#include "core/engine/workers.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::engine {

NodeIndex Workers::joined(const WorkerJoined& event) {
  const NodeIndex node = s_.node_of.find(event.node);
  const WorkerIndex known = find(event.worker);
  if (node.is_none() || (!known.is_none() && workers_[known].state != Worker::State::lost)) {
    s_.protocol_error();
    return NodeIndex::none();
  }
  if (quiet_.empty()) quiet_.push_back(workers_.add());
  const WorkerIndex index = quiet_.back();
  quiet_.pop_back();
  workers_[index] = {event.worker, node, Worker::State::idle, MakingIndex::none(), {}};
  index_of_.set(event.worker, index);
  s_.nodes[node].staff.push_back(index);
  s_.nodes[node].idle.push_back(index);
  ++s_.nodes[node].workers;
  s_.plan_staging(node);
  s_.room_on(node);
  return node;
}

MakingIndex Workers::lost(WorkerIndex index) {
  Worker& worker = workers_[index];
  Node& node = s_.nodes[worker.node];
  std::erase(node.idle, index);
  --node.workers;
  s_.plan_staging(worker.node);
  s_.changed_on(worker.node);
  worker.state = Worker::State::lost;
  return std::exchange(worker.making, MakingIndex::none());
}

void Workers::quiesced(WorkerIndex index) {
  Worker& worker = workers_[index];
  for (const Resident& slot : worker.quarantine) {
    const Place place = s_.memory[slot.share].spec.place;
    s_.emit(Drop{slot.share, place, Form::prepared, slot.item, slot.slot});
    s_.memory.give_back(slot.share, slot.item);
  }
  worker.quarantine.clear();
  std::erase(s_.nodes[worker.node].staff, index);
  forget(index);
  s_.room_everywhere();
}

void Workers::stop(NodeIndex node) {
  for (const WorkerIndex worker : s_.nodes[node].staff) {
    workers_[worker].state = Worker::State::quiesced;
  }
}

void Workers::forget_all(NodeIndex node_index) {
  Node& node = s_.nodes[node_index];
  node.idle.clear();
  node.workers = 0;
  for (const WorkerIndex index : node.staff) {
    Worker& worker = workers_[index];
    // Nothing on a lost node writes anywhere any more.
    for (const Resident& slot : worker.quarantine) s_.memory.give_back(slot.share, slot.item);
    worker.quarantine.clear();
    forget(index);
  }
  node.staff.clear();
}

// Nothing refers to the worker any more.
void Workers::forget(WorkerIndex index) {
  Worker& worker = workers_[index];
  worker.state = Worker::State::quiesced;
  worker.making = MakingIndex::none();
  if (find(worker.id) == index) index_of_.erase(worker.id);
  quiet_.push_back(index);
}

WorkerIndex Workers::take(NodeIndex node_index, MakingIndex making) {
  Node& node = s_.nodes[node_index];
  const WorkerIndex worker = node.idle.back();
  node.idle.pop_back();
  workers_[worker].state = Worker::State::busy;
  workers_[worker].making = making;
  return worker;
}

void Workers::reassign(WorkerIndex worker, MakingIndex making) {
  if (workers_[worker].state == Worker::State::busy) workers_[worker].making = making;
}

MakingIndex Workers::holder_that_waits(NodeIndex node) const {
  for (const WorkerIndex index : s_.nodes[node].staff) {
    const Worker& worker = workers_[index];
    if (worker.state != Worker::State::busy) continue;
    const Making& making = s_.makings[worker.making];
    if (!making.preparing && making.waiting > 0) return worker.making;
  }
  return MakingIndex::none();
}

void Workers::release(WorkerIndex index) {
  Worker& worker = workers_[index];
  if (worker.state != Worker::State::busy) return;
  worker.state = Worker::State::idle;
  worker.making = MakingIndex::none();
  s_.nodes[worker.node].idle.push_back(index);
}

void Workers::quarantine(WorkerIndex worker, const Resident& slot) {
  workers_[worker].quarantine.push_back(slot);
}

}  // namespace batchflow::engine
