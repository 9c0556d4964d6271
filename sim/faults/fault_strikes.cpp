// What the injector does when the time of a fault has come: to strike, to report it, to end it.
#include <algorithm>

#include "core/base/check.h"
#include "sim/faults/fault_injector.h"

namespace batchflow::faults {

namespace {

using Kind = Fault::Kind;

bool is_among(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

// --------------------------------------------------------------------- what a command needs ----

// From which node to which a command moves bytes; a store is no node.
std::optional<std::pair<NodeId, NodeId>> FaultInjector::ends_of(const PendingCommand& pending) {
  if (const auto* read = std::get_if<engine::Read>(&pending.command)) {
    return std::pair{read->from.node, read->to.node};
  }
  if (const auto* copy = std::get_if<engine::Transfer>(&pending.command)) {
    return std::pair{copy->from.node, copy->to.node};
  }
  return std::nullopt;
}

bool FaultInjector::touches(const PendingCommand& pending, NodeId node) {
  if (const auto ends = ends_of(pending)) return ends->first == node || ends->second == node;
  if (const auto* prepare = std::get_if<engine::Prepare>(&pending.command))
    return prepare->node == node;
  return std::get<engine::Deliver>(pending.command).place.node == node;
}

bool FaultInjector::is_swallowed(const PendingCommand& pending) const {
  const auto touched = [&](NodeId node) { return touches(pending, node); };
  if (std::any_of(dead_.begin(), dead_.end(), touched)) return true;
  const auto* prepare = std::get_if<engine::Prepare>(&pending.command);
  if (prepare == nullptr) return false;
  const auto worker = workers_.find(prepare->worker);
  return worker != workers_.end() && worker->second.state != Worker::State::alive;
}

// The fault that keeps the command's bytes from their way.
std::optional<std::size_t> FaultInjector::cut_by(const PendingCommand& pending) const {
  const auto ends = ends_of(pending);
  if (!ends) return std::nullopt;
  for (const std::size_t i : cuts_) {
    const Fault& fault = faults_[i];
    if (!active_[i]) continue;
    const auto inside = [&](NodeId node) {
      return node.is_none() ? fault.cut_stores : is_among(fault.cut_nodes, node);
    };
    if (inside(ends->first) != inside(ends->second)) return i;
  }
  return std::nullopt;
}

bool FaultInjector::is_drive_lost(Place place) const {
  return std::any_of(lost_drives_.begin(), lost_drives_.end(),
                     [&](std::size_t i) { return active_[i] && faults_[i].place == place; });
}

// ------------------------------------------------------------------------------------- acting ----

void FaultInjector::plan(Instant when, Act act, std::uint64_t which) {
  plan_.insert({when, ++serials_, act, which});
}

void FaultInjector::act(Act act, std::uint64_t which) {
  switch (act) {
    case Act::strike:
      return strike(which);
    case Act::report:
      return report(which);
    case Act::quiet:
      return quiet(which);
    case Act::end:
      return end(which);
    case Act::fail:
      return fail(RequestId(which));
  }
}

void FaultInjector::strike(std::uint64_t index) {
  const Fault& fault = faults_[index];
  Struck& struck = struck_[index];
  active_[index] = true;
  switch (fault.kind) {
    case Kind::node_lost:
      struck.parts = lose_node(fault.node) ? 1 : 0;
      break;
    case Kind::worker_lost:
      choose_workers(index);
      lose_workers(index);
      break;
    case Kind::drive_lost:
      struck.parts = lose_drive(index) ? 1 : 0;
      break;
    case Kind::cut_off:
      cut_off();
      break;
    case Kind::slowed:
      struck.parts = 1;
      report_speed(index);
      break;
    case Kind::worker_slowed:
      choose_workers(index);
      report_speed(index);
      break;
    case Kind::samples_corrupt:
    case Kind::reads_failed:
      break;
  }
  const bool counts_later = fault.kind == Kind::cut_off || fault.kind == Kind::samples_corrupt ||
                            fault.kind == Kind::reads_failed;
  struck.struck = counts_later || struck.parts > 0;
  active_[index] = struck.struck;
  if (!struck.struck) return;
  struck.from = now_;
  const Instant over = fault.lasts.count() > 0 ? now_ + fault.lasts : kNever;
  if (fault.kind == Kind::node_lost || fault.kind == Kind::worker_lost) {
    // A node or worker that comes back early shows by this that it was away.
    const Instant reported = std::min(now_ + fault.detected_after, over);
    plan(reported, Act::report, index);
    if (fault.kind == Kind::worker_lost) {
      plan(std::min(reported + fault.quiet_after, over), Act::quiet, index);
    }
  }
  if (over != kNever) plan(over, Act::end, index);
}

void FaultInjector::report(std::uint64_t index) {
  const Fault& fault = faults_[index];
  if (fault.kind == Kind::node_lost) {
    std::erase_if(workers_, [&](const auto& entry) { return entry.second.node == fault.node; });
    return pass_on(engine::NodeLost{fault.node});
  }
  for (const WorkerId id : chosen_[index]) {
    const auto found = workers_.find(id);
    if (found == workers_.end() || dead_.count(found->second.node) != 0) continue;
    found->second.state = Worker::State::reported;
    pass_on(engine::WorkerLost{id});
  }
}

void FaultInjector::quiet(std::uint64_t index) {
  for (const WorkerId id : chosen_[index]) {
    const auto found = workers_.find(id);
    if (found == workers_.end() || found->second.state != Worker::State::reported) continue;
    if (dead_.count(found->second.node) != 0) continue;
    found->second.state = Worker::State::quiet;
    pass_on(engine::WorkerQuiesced{id});
  }
}

void FaultInjector::end(std::uint64_t index) {
  const Fault& fault = faults_[index];
  active_[index] = false;
  struck_[index].until = now_;
  switch (fault.kind) {
    case Kind::node_lost:
      return return_node(fault.node);
    case Kind::worker_lost:
      for (const WorkerId id : chosen_[index]) {
        const auto found = workers_.find(id);
        if (found == workers_.end() || dead_.count(found->second.node) != 0) continue;
        found->second.state = Worker::State::alive;
        pass_on(engine::WorkerJoined{id, found->second.node});
      }
      return;
    case Kind::drive_lost:
      if (is_drive_lost(fault.place) || dead_.count(fault.place.node) != 0) return;
      return pass_on(engine::CapacityChanged{fault.place, capacity_.at(fault.place)});
    case Kind::cut_off:
      return reconnect();
    case Kind::slowed:
    case Kind::worker_slowed:
      return report_speed(index);
    case Kind::samples_corrupt:
    case Kind::reads_failed:
      return;
  }
}

// --------------------------------------------------------------------------- nodes and drives ----

bool FaultInjector::lose_node(NodeId node) {
  if (cores_.count(node) == 0 || !dead_.insert(node).second) return false;
  for (auto& [id, pending] : pending_) {
    if (touches(pending, node)) stop(pending, PendingCommand::State::swallowed);
  }
  // The processes of its workers are gone; new ones are asked for when the node is back.
  commands_.push_back(engine::SetWorkers{node, 0});
  set_speed_(Part::node, node.value, 0);
  return true;
}

void FaultInjector::return_node(NodeId node) {
  dead_.erase(node);
  pass_on(engine::NodeJoined{node, cores_.at(node)});
  for (const auto& [place, bytes] : capacity_) {
    if (place.node == node && !is_drive_lost(place)) pass_on(engine::CapacityChanged{place, bytes});
  }
  set_speed_(Part::node, node.value, 1);
}

bool FaultInjector::lose_drive(std::uint64_t index) {
  const Place place = faults_[index].place;
  if (capacity_.count(place) == 0) return false;
  for (auto& [id, pending] : pending_) {
    const auto* read = std::get_if<engine::Read>(&pending.command);
    const bool running = pending.state != PendingCommand::State::swallowed;
    if (read != nullptr && running && read->from == place) hold(id, pending, Duration(0));
  }
  if (dead_.count(place.node) == 0) pass_on(engine::CapacityChanged{place, 0});
  return true;
}

// ------------------------------------------------------------------------------------ workers ----

void FaultInjector::choose_workers(std::uint64_t index) {
  const Fault& fault = faults_[index];
  std::vector<WorkerId> alive;
  for (const auto& [id, worker] : workers_) {
    const bool there = worker.node == fault.node && worker.state == Worker::State::alive;
    if (there && dead_.count(worker.node) == 0) alive.push_back(id);
  }
  Random random = random_.split(index);
  shuffle(std::span(alive), random);
  alive.resize(std::min<std::uint64_t>(alive.size(), fault.count));
  struck_[index].parts = alive.size();
  chosen_[index] = std::move(alive);
}

void FaultInjector::lose_workers(std::uint64_t index) {
  for (const WorkerId id : chosen_[index]) workers_.at(id).state = Worker::State::dead;
  for (auto& [id, pending] : pending_) {
    if (is_swallowed(pending)) stop(pending, PendingCommand::State::swallowed);
  }
}

// ----------------------------------------------------------------------- commands that wait ----

// The command is not carried out any more, for now or for good.
void FaultInjector::stop(PendingCommand& pending, PendingCommand::State state) {
  if (pending.state == PendingCommand::State::running) {
    commands_.push_back(std::visit(
        [](const auto& command) { return engine::Cancel{command.request}; }, pending.command));
  }
  pending.state = state;
}

void FaultInjector::hold(RequestId id, PendingCommand& pending, Duration timeout) {
  stop(pending, PendingCommand::State::held);
  pending.fails = now_ + timeout;
  plan(pending.fails, Act::fail, id.value);
}

void FaultInjector::fail(RequestId id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const PendingCommand& pending = found->second;
  // It may have gone on, and even been stopped anew, since this was planned.
  if (pending.state != PendingCommand::State::held || pending.fails > now_) return;
  if (const auto* read = std::get_if<engine::Read>(&pending.command)) {
    pass_on(engine::ReadDone{read->request, engine::Outcome::failed, {}});
  } else {
    pass_on(engine::TransferDone{std::get<engine::Transfer>(pending.command).request,
                                 engine::Outcome::failed});
  }
  pending_.erase(found);
}

bool FaultInjector::hold_if_cut(RequestId id, PendingCommand& pending) {
  const auto fault = cut_by(pending);
  if (!fault) return false;
  ++struck_[*fault].parts;
  hold(id, pending, faults_[*fault].timeout);
  return true;
}

void FaultInjector::cut_off() {
  for (auto& [id, pending] : pending_) {
    if (pending.state == PendingCommand::State::running) hold_if_cut(id, pending);
  }
}

// What waited and can move again begins anew.
void FaultInjector::reconnect() {
  for (auto& [id, pending] : pending_) {
    if (pending.state != PendingCommand::State::held || cut_by(pending)) continue;
    pending.state = PendingCommand::State::running;
    if (auto* read = std::get_if<engine::Read>(&pending.command)) {
      read->samples = pending.samples;
      commands_.push_back(*read);
    } else {
      commands_.push_back(std::get<engine::Transfer>(pending.command));
    }
  }
}

// -------------------------------------------------------------------------------------- speed ----

// If several faults slow a part down, all of them count.
void FaultInjector::report_speed(std::uint64_t index) {
  const Fault& fault = faults_[index];
  const auto product = [&](auto&& is_slowed_by) {
    double factor = 1;
    for (std::size_t i = 0; i < faults_.size(); ++i) {
      if (active_[i] && faults_[i].kind == fault.kind && is_slowed_by(i))
        factor *= faults_[i].factor;
    }
    return factor;
  };
  if (fault.kind == Kind::slowed) {
    const auto same = [&](std::size_t i) { return faults_[i].hardware == fault.hardware; };
    return set_speed_(Part::hardware, fault.hardware, product(same));
  }
  for (const WorkerId id : chosen_[index]) {
    const auto same = [&](std::size_t i) {
      return std::find(chosen_[i].begin(), chosen_[i].end(), id) != chosen_[i].end();
    };
    set_speed_(Part::worker, id.value, product(same));
  }
}

}  // namespace batchflow::faults
