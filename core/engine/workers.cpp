#include "core/engine/workers.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::engine {

std::uint32_t Workers::find(WorkerId worker) const {
  const auto found = s_.worker_of.find(worker.value);
  return found == s_.worker_of.end() ? kNone : found->second;
}

std::uint32_t Workers::joined(const WorkerJoined& event) {
  const std::uint32_t node = s_.node_of.find(event.node.value);
  const std::uint32_t known = find(event.worker);
  if (node == kNone || (known != kNone && s_.workers[known].state != Worker::State::lost)) {
    s_.protocol_error();
    return kNone;
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
  return node;
}

std::uint32_t Workers::lost(std::uint32_t index) {
  Worker& worker = s_.workers[index];
  Node& node = s_.nodes[worker.node];
  std::erase(node.idle, index);
  --node.workers;
  s_.plan_staging(worker.node);
  s_.changed_on(worker.node);
  worker.state = Worker::State::lost;
  return std::exchange(worker.making, kNone);
}

void Workers::quiesced(std::uint32_t index) {
  Worker& worker = s_.workers[index];
  for (const Resident& slot : worker.quarantine) {
    const SharePart& part = s_.memory[slot.share];
    s_.order(Drop{part.id, part.spec.place, Form::prepared, slot.item, slot.slot});
    s_.memory.give_back(slot.share, slot.item);
  }
  worker.quarantine.clear();
  std::erase(s_.nodes[worker.node].staff, index);
  forget(index);
  s_.room_everywhere();
}

void Workers::stop(std::uint32_t node) {
  for (const std::uint32_t worker : s_.nodes[node].staff) {
    s_.workers[worker].state = Worker::State::quiesced;
  }
}

void Workers::forget_all(std::uint32_t node_index) {
  Node& node = s_.nodes[node_index];
  node.idle.clear();
  node.workers = 0;
  for (const std::uint32_t index : node.staff) {
    Worker& worker = s_.workers[index];
    // Nothing on a lost node writes anywhere any more.
    for (const Resident& slot : worker.quarantine) s_.memory.give_back(slot.share, slot.item);
    worker.quarantine.clear();
    forget(index);
  }
  node.staff.clear();
}

// Nothing refers to the worker any more.
void Workers::forget(std::uint32_t index) {
  Worker& worker = s_.workers[index];
  worker.state = Worker::State::quiesced;
  worker.making = kNone;
  if (find(worker.id) == index) s_.worker_of.erase(worker.id.value);
  s_.quiet_workers.push_back(index);
}

std::uint32_t Workers::take(std::uint32_t node_index, std::uint32_t making) {
  Node& node = s_.nodes[node_index];
  const std::uint32_t worker = node.idle.back();
  node.idle.pop_back();
  s_.workers[worker].state = Worker::State::busy;
  s_.workers[worker].making = making;
  return worker;
}

void Workers::reassign(std::uint32_t worker, std::uint32_t making) {
  if (s_.workers[worker].state == Worker::State::busy) s_.workers[worker].making = making;
}

std::uint32_t Workers::holder_that_waits(std::uint32_t node) const {
  for (const std::uint32_t index : s_.nodes[node].staff) {
    const Worker& worker = s_.workers[index];
    if (worker.state != Worker::State::busy) continue;
    const Making& making = s_.makings[worker.making];
    if (!making.preparing && making.waiting > 0) return worker.making;
  }
  return kNone;
}

void Workers::release(std::uint32_t index) {
  Worker& worker = s_.workers[index];
  if (worker.state != Worker::State::busy) return;
  worker.state = Worker::State::idle;
  worker.making = kNone;
  s_.nodes[worker.node].idle.push_back(index);
}

void Workers::quarantine(std::uint32_t worker, const Resident& slot) {
  s_.workers[worker].quarantine.push_back(slot);
}

}  // namespace batchflow::engine
