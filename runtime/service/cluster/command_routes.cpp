#include "runtime/service/cluster/command_routes.h"

#include <variant>

namespace batchflow::service {

NodeId CommandRoutes::node_of(const engine::Command& command) const {
  struct Visitor {
    const CommandRoutes& routes;
    NodeId operator()(const engine::Read& one) const { return one.to.node; }
    NodeId operator()(const engine::Prepare& one) const { return one.node; }
    NodeId operator()(const engine::Transfer& one) const { return one.to.node; }
    NodeId operator()(const engine::Deliver& one) const { return one.place.node; }
    NodeId operator()(const engine::Drop& one) const { return one.place.node; }
    NodeId operator()(const engine::SetWorkers& one) const { return one.node; }
    NodeId operator()(const engine::LetGo& one) const { return one.node; }
    NodeId operator()(const engine::Adopt& one) const { return one.place.node; }
    NodeId operator()(const engine::Cancel& one) const { return carrier_of(one.request); }
    NodeId operator()(const engine::Release& one) const { return carrier_of(one.request); }
    NodeId operator()(const engine::Admit&) const { return NodeId(0); }
    NodeId operator()(const engine::Refuse&) const { return NodeId(0); }
    NodeId operator()(const engine::EpochEnded&) const { return NodeId(0); }
    NodeId operator()(const engine::MixtureSet&) const { return NodeId(0); }
    NodeId operator()(const engine::ExemplarsSet&) const { return NodeId(0); }
    NodeId operator()(const engine::SourcePaced&) const { return NodeId(0); }
    NodeId operator()(const engine::SetTimer&) const { return NodeId(0); }
    NodeId carrier_of(const engine::Request& request) const {
      const auto found = routes.routes_.find(request.id.value);
      return found == routes.routes_.end() ? NodeId(0) : found->second.node;
    }
  };
  return std::visit(Visitor{*this}, command);
}

void CommandRoutes::note(NodeId node, const engine::Command& command) {
  if (const auto* read = std::get_if<engine::Read>(&command)) {
    routes_[read->request.id.value] = {node, !read->keep.is_none() && read->keep_at == read->to,
                                       true};
  } else if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
    routes_[prepare->request.id.value] = {node, true, false};  // its end is still reported
  } else if (const auto* transfer = std::get_if<engine::Transfer>(&command)) {
    routes_[transfer->request.id.value] = {node, true, true};
  } else if (const auto* cancel = std::get_if<engine::Cancel>(&command)) {
    const auto found = routes_.find(cancel->request.id.value);
    if (found != routes_.end() && found->second.ends_when_cancelled) routes_.erase(found);
  } else if (const auto* release = std::get_if<engine::Release>(&command)) {
    if (release->samples.empty()) routes_.erase(release->request.id.value);
  }
}

WorkerId CommandRoutes::theirs(WorkerId worker) const {
  const auto found = theirs_.find(worker.value);
  return found == theirs_.end() ? WorkerId::none() : WorkerId(found->second);
}

engine::Command CommandRoutes::hand_over(NodeId node, const engine::Command& command) {
  note(node, command);
  engine::Command copy = command;
  if (auto* prepare = std::get_if<engine::Prepare>(&copy))
    prepare->worker = theirs(prepare->worker);
  if (auto* read = std::get_if<engine::Read>(&copy); read && !read->held.is_none())
    read->held = theirs(read->held);
  return copy;
}

CommandRoutes::Routes::iterator CommandRoutes::find(NodeId node, const engine::Request& request) {
  const auto route = routes_.find(request.id.value);
  return route == routes_.end() || route->second.node != node ? routes_.end() : route;
}

bool CommandRoutes::done(NodeId node, const engine::ReadDone& done) {
  const auto route = find(node, done.request);
  if (route == routes_.end()) return false;
  const bool is_over = done.outcome == engine::Outcome::failed
                           ? done.failed.empty()
                           : done.outcome == engine::Outcome::done && route->second.ends_when_done;
  if (is_over) routes_.erase(route);
  return true;
}

bool CommandRoutes::done(NodeId node, const engine::PreparationDone& done) {
  const auto route = find(node, done.request);
  if (route == routes_.end()) return false;
  routes_.erase(route);
  return true;
}

bool CommandRoutes::done(NodeId node, const engine::TransferDone& done) {
  const auto route = find(node, done.request);
  if (route == routes_.end()) return false;
  routes_.erase(route);
  return true;
}

WorkerId CommandRoutes::joined(NodeId node, WorkerId theirs) {
  const WorkerId worker(next_worker_++);
  workers_[node.value][theirs.value] = worker;
  theirs_[worker.value] = theirs.value;
  return worker;
}

WorkerId CommandRoutes::quiesced(NodeId node, WorkerId theirs) {
  const auto found = workers_[node.value].extract(theirs.value);
  if (!found) return WorkerId::none();
  theirs_.erase(found.mapped().value);
  return found.mapped();
}

void CommandRoutes::lost(NodeId node) {
  for (const auto& [theirs, worker] : workers_[node.value]) theirs_.erase(worker.value);
  workers_.erase(node.value);
  std::erase_if(routes_, [node](const auto& one) { return one.second.node == node; });
}

}  // namespace batchflow::service
