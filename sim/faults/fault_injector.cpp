#include "sim/faults/fault_injector.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "core/engine/unnamed_samples.h"
#include "core/order/permutation.h"

namespace batchflow::faults {

namespace {

// Names the random numbers of faults among all streams that begin with a run's seed.
constexpr std::uint64_t kFaults = 0xfa17;

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

using Kind = Fault::Kind;

bool is_among(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

FaultInjector::FaultInjector(std::vector<Fault> faults, std::uint64_t seed,
                             const engine::Catalogues& catalogues, EngineStep engine,
                             SetSpeed set_speed)
    : faults_(std::move(faults)),
      random_(hash(seed, kFaults)),
      catalogues_(catalogues),
      engine_(std::move(engine)),
      set_speed_(std::move(set_speed)),
      struck_(faults_.size()),
      active_(faults_.size(), false),
      chosen_(faults_.size()),
      corrupt_(faults_.size()),
      met_(faults_.size()) {
  for (std::uint64_t fault = 0; fault < faults_.size(); ++fault) {
    plan(faults_[fault].at, Act::strike, fault);
    const Fault::Kind kind = faults_[fault].kind;
    if (kind == Fault::Kind::cut_off) cuts_.push_back(fault);
    if (kind == Fault::Kind::drive_lost) lost_drives_.push_back(fault);
    if (kind == Fault::Kind::reads_failed) failing_reads_.push_back(fault);
  }
}

std::span<const engine::Command> FaultInjector::step(Instant now,
                                                     std::span<const engine::Event> events) {
  now_ = std::max(now_, now);
  events_.clear();
  commands_.clear();
  lists_.clear();
  // Events at the time of a fault happened before it.
  for (const engine::Event& event : events) {
    std::visit([this](const auto& fact) { observe(fact); }, event);
  }
  while (due() <= now_) {
    const auto [when, serial, what, which] = *plan_.begin();
    plan_.erase(plan_.begin());
    act(what, which);
  }
  if (events_.empty()) return commands_;
  for (const engine::Command& command : engine_(now_, events_)) {
    std::visit([this](const auto& sent) { observe_command(sent); }, command);
  }
  return commands_;
}

// ------------------------------------------------------------------ what the backend reports ----

bool FaultInjector::rank_is_dead(JobId job, Rank rank) const {
  const auto found = ranks_.find(job);
  return found != ranks_.end() && rank < found->second.size() &&
         dead_.count(found->second[rank]) != 0;
}

template <class Fact>
void FaultInjector::observe(const Fact& event) {
  if constexpr (std::is_same_v<Fact, engine::ReadDone>) return observe_read(event);
  if constexpr (std::is_same_v<Fact, engine::PreparationDone>) return observe_prepared(event);
  if constexpr (is_one_of<Fact, engine::TransferDone, engine::DeliveryDone>) {
    if (!completed(event)) return;
  }
  if constexpr (is_one_of<Fact, engine::BatchWanted, engine::BatchConsumed, engine::SlotReleased>) {
    if (rank_is_dead(event.job, event.rank)) return;
  }
  if constexpr (is_one_of<Fact, engine::JobJoined, engine::JobResized>) {
    ranks_[event.job].assign(event.ranks.begin(), event.ranks.end());
  }
  if constexpr (std::is_same_v<Fact, engine::JobLeft>) ranks_.erase(event.job);
  if constexpr (std::is_same_v<Fact, engine::NodeJoined>) cores_[event.node] = event.cores;
  if constexpr (std::is_same_v<Fact, engine::CapacityChanged>) {
    capacity_[event.place] = event.bytes;
    if (dead_.count(event.place.node) != 0 || is_drive_lost(event.place)) return;
  }
  if constexpr (std::is_same_v<Fact, engine::WorkerJoined>) {
    if (dead_.count(event.node) != 0) return;
    workers_[event.worker] = {event.node};
  }
  if constexpr (std::is_same_v<Fact, engine::WorkerQuiesced>) {
    const auto found = workers_.find(event.worker);
    if (found == workers_.end()) return;  // gone with its node
    const Worker worker = found->second;
    workers_.erase(found);
    if (worker.state == Worker::State::quiet || dead_.count(worker.node) != 0) return;
  }
  if constexpr (std::is_same_v<Fact, engine::CatalogueKnown>) choose_samples(event);
  pass_on(event);
}

// Which samples are corrupt depends on the seed and the fault alone.
void FaultInjector::choose_samples(const engine::CatalogueKnown& event) {
  const engine::Catalogue* catalogue = catalogues_.find(event.dataset, event.version);
  if (catalogue == nullptr) return;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind != Fault::Kind::samples_corrupt || fault.dataset != event.dataset) continue;
    const order::Permutation shuffled(random_.split(i).draw(), catalogue->samples());
    corrupt_[i].clear();
    for (std::uint64_t k = 0; k < std::min(fault.count, shuffled.size()); ++k) {
      corrupt_[i].emplace_back(shuffled(k));
    }
    std::sort(corrupt_[i].begin(), corrupt_[i].end());
  }
}

// The command that is over; nothing when its completion is not to be reported.
template <class Completion>
std::optional<FaultInjector::PendingCommand> FaultInjector::completed(const Completion& event) {
  const auto found = pending_.find(event.request.id);
  if (found == pending_.end() || found->second.state != PendingCommand::State::running)
    return std::nullopt;
  const auto attempt = std::visit([](const auto& command) { return command.request.attempt; },
                                  found->second.command);
  if (attempt != event.request.attempt) return std::nullopt;
  std::optional<PendingCommand> pending = std::move(found->second);
  pending_.erase(found);
  return pending;
}

void FaultInjector::observe_read(const engine::ReadDone& event) {
  const auto pending = completed(event);
  if (!pending) return;
  const engine::Read& read = std::get<engine::Read>(pending->command);
  const order::BlockName& block = read.lineage.name;
  const std::uint64_t first = pending->samples.empty() ? 0 : pending->samples.front().value + 1;
  for (const std::size_t i : failing_reads_) {
    const Fault& fault = faults_[i];
    if (!active_[i] || fault.place != read.from) continue;
    Random chance =
        random_.split(i).split(hash(read.dataset.value, block.generation, block.lane, block.pass,
                                    block.block, first, read.to.node.value, event.request.attempt));
    if (chance.below(Ratio::kWhole) >= fault.ratio.parts) continue;
    ++struck_[i].parts;
    return pass_on(engine::ReadDone{event.request, engine::Outcome::failed, {}});
  }
  pass_on(event);
}

void FaultInjector::observe_prepared(const engine::PreparationDone& event) {
  const auto pending = completed(event);
  if (!pending) return;
  std::vector<SampleId> bad;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!active_[i] || corrupt_[i].empty()) continue;
    if (faults_[i].dataset != std::get<engine::Prepare>(pending->command).lineage.dataset) continue;
    const auto before = static_cast<std::ptrdiff_t>(bad.size());
    std::set_intersection(pending->samples.begin(), pending->samples.end(), corrupt_[i].begin(),
                          corrupt_[i].end(), std::back_inserter(bad));
    met_[i].insert(bad.begin() + before, bad.end());
    struck_[i].parts = met_[i].size();
  }
  if (bad.empty() || event.outcome != engine::Outcome::done) return pass_on(event);
  std::sort(bad.begin(), bad.end());
  bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
  lists_.push_back(std::move(bad));
  pass_on(engine::PreparationDone{event.request, engine::Outcome::corrupt, lists_.back()});
}

// ----------------------------------------------------------------- what the engine commands ----

template <class Command>
void FaultInjector::observe_command(const Command& command) {
  if constexpr (is_one_of<Command, engine::Read, engine::Prepare, engine::Transfer,
                          engine::Deliver>) {
    begin(command);
  } else if constexpr (std::is_same_v<Command, engine::Cancel>) {
    const auto found = pending_.find(command.request.id);
    if (found == pending_.end()) return;
    const bool running = found->second.state == PendingCommand::State::running;
    // What becomes of a preparation is still reported.
    const bool is_over =
        !running || !std::holds_alternative<engine::Prepare>(found->second.command);
    if (is_over) pending_.erase(found);
    if (running) commands_.push_back(command);
  } else {
    if constexpr (std::is_same_v<Command, engine::SetWorkers>) {
      if (dead_.count(command.node) != 0) return;
    }
    commands_.push_back(command);
  }
}

// The samples that the command decodes from their stored bytes, sorted; empty if no fault corrupts
// samples of its dataset.
std::vector<SampleId> FaultInjector::decoded_by(const engine::Prepare& command) {
  std::vector<SampleId> samples;
  const bool any = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.kind == Fault::Kind::samples_corrupt && fault.dataset == command.lineage.dataset;
  });
  if (!any) return samples;
  const order::Lineage& lineage = command.lineage;
  const engine::Catalogue* catalogue = catalogues_.find(lineage.dataset, lineage.dataset_version);
  BF_CHECK(catalogue != nullptr);
  engine::unnamed_samples(command, catalogue->samples(), expander_, samples);
  for (const engine::Ingredient& ingredient : command.ingredients) {
    if (ingredient.form == Form::encoded) samples.push_back(ingredient.sample);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

template <class Command>
void FaultInjector::begin(const Command& command) {
  PendingCommand& pending = pending_[command.request.id];
  pending = {PendingCommand::State::held, command, {}, {}};
  if constexpr (std::is_same_v<Command, engine::Read>) {
    pending.samples.assign(command.samples.begin(), command.samples.end());
    if (is_drive_lost(command.from)) return hold(command.request.id, pending, Duration(0));
  }
  if constexpr (std::is_same_v<Command, engine::Prepare>) pending.samples = decoded_by(command);
  if (is_swallowed(pending)) {
    pending.state = PendingCommand::State::swallowed;
    return;
  }
  if (hold_if_cut(command.request.id, pending)) return;
  pending.state = PendingCommand::State::running;
  commands_.push_back(command);
}

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
